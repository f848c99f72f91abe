//! One pod opens thousands of redirected connections, and keeps them. Other pods' connections go on, old and new ones.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::place::{PORT, connect, vip};
use epguard_common::{Outcome, Reason};
use epguard_lab::scenario::stage::Stage;
use epguard_lab::traffic::{Client, Flood};

/// More than a client's share of 2,048.
const OPENED: u64 = 2_500;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_client_with_thousands_of_redirected_connections_takes_no_room_from_others() {
    let stage = super::place::stage();
    serve(&stage, "L");
    let mut older = connect(&stage, "old/web").unwrap();
    call(&mut older);
    let greedy = &stage.cluster.topology.pod("C").unwrap().netns;
    let to = vip(&stage, "old/web");
    let open = || TcpStream::connect_timeout(&to, Duration::from_mins(1)).unwrap();
    let mut taken: Vec<TcpStream> = greedy.run(|| (0..OPENED).map(|_| open()).collect()).unwrap();
    taken.iter_mut().for_each(call);
    let counters = stage.counters().unwrap();
    let beyond = counters.of(Reason::Nothing, Outcome::BeyondShare);
    assert_eq!(beyond, OPENED - 2_048, "{counters}");
    let mut younger = connect(&stage, "old/web").unwrap();
    call(&mut younger);
    // This evicts 16,384 opening flows: all flows beyond their client's share are lost.
    let flood = Flood { to, per_second: 24_000, count: 60_000 };
    Client::new(greedy).flood(flood).unwrap();
    call(&mut older);
    call(&mut younger);
    // The greedy client's own share stays as well.
    taken.iter_mut().take(1_000).for_each(call);
}

/// An echo server for many connections, with one thread.
fn serve(stage: &Stage, pod: &str) {
    let at = SocketAddr::new(stage.cluster.names.pod(pod).unwrap().ip, PORT);
    let netns = &stage.cluster.topology.pod(pod).unwrap().netns;
    let listener = netns.run(|| TcpListener::bind(at)).unwrap().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let builder = thread::Builder::new().stack_size(64 << 10);
            let echo = move || {
                let mut chunk = [0; 16];
                while let Ok(length @ 1..) = stream.read(&mut chunk) {
                    if stream.write_all(&chunk[..length]).is_err() {
                        return;
                    }
                }
            };
            drop(builder.spawn(echo).unwrap());
        }
    });
}

fn call(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
}
