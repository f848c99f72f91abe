//! A's Service asks for redirection. A is dead, B of another namespace has its IP, L lives.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::stage::{connect_from, ip, netns, vip};
use epguard_lab::scenario::stage::Stage;

/// Port of the pods' echo servers; the lab's own servers have 8080.
const PORT: u16 = 9000;

const STORY: &str = "
agent: {mode: enforce}
pods:
  A: {is: old/web-1, ip: X, labels: {app: web}}
  L: {is: old/web-2, labels: {app: web}}
  C: {is: ok/api, labels: {app: api}}
  B: {is: new/shop, ip: X, labels: {app: shop}}
services:
  old/web: {selector: {app: web}, target-port: 9000, annotations: {epguard.io/action: redirect}}
  ok/api: {selector: {app: api}, target-port: 9000}
steps:
  - pods: [A starts, C starts]
  - slices: {old/web: {A: ready}, ok/api: {C: ready}}
  - proxy: sync
  - pods: [L starts]
  - slices: {old/web: {A: ready, L: ready}}
  - pods: [A fails, B starts]
  # A list alone denies nothing, so the first denial awaits a second list.
  - dump: {denied: {has: [{stopped: false}]}}
";

/// The stage, once flows to `old/web` are redirected.
pub(crate) fn stage() -> Stage {
    stage_with(&[])
}

/// As [`stage`], with these words of the story replaced by others.
pub(crate) fn stage_with(changes: &[(&str, &str)]) -> Stage {
    let replace = |story: String, (from, to): &(&str, &str)| story.replace(from, to);
    crate::stage::stage(&changes.iter().fold(STORY.to_owned(), replace))
}

/// Asks for redirection.
pub(crate) const ANNOTATION: &str = ", annotations: {epguard.io/action: redirect}";

/// Adds a bridge that joins the node's pods.
pub(crate) const ON_A_BRIDGE: (&str, &str) = ("agent:", "runs: {cni: [bridge]}\nagent:");

/// A pod's address and the port of its echo server.
pub(crate) fn address(stage: &Stage, pod: &str) -> SocketAddr {
    SocketAddr::new(ip(stage, pod), PORT)
}

/// How many connections a server has taken.
pub(crate) fn taken(server: &AtomicUsize) -> usize {
    server.load(Ordering::SeqCst)
}

/// A connection of the pod `client`.
pub(crate) fn connect(stage: &Stage, service: &str) -> std::io::Result<TcpStream> {
    connect_from(stage, "client", vip(stage, service))
}

/// Sends a word and reads it back.
pub(crate) fn call(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"hello")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"hello");
    Ok(())
}

/// A server in a pod that returns all data; the result counts its connections.
pub(crate) fn echo(stage: &Stage, pod: &str) -> Arc<AtomicUsize> {
    let at = address(stage, pod);
    let listener = netns(stage, pod)
        .run(|| TcpListener::bind(at))
        .unwrap()
        .unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            // There may be thousands.
            let thread = thread::Builder::new().stack_size(64 << 10);
            drop(thread.spawn(move || return_all(stream)).unwrap());
        }
    });
    taken
}

fn return_all(mut stream: TcpStream) {
    let mut chunk = vec![0; 1 << 16];
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        if stream.write_all(&chunk[..length]).is_err() {
            return;
        }
    }
}
