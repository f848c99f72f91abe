//! Many connections, and many bytes on one.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::place::{connect, echo, stage};
use crate::stage::{netns, vip};
use epguard_common::Outcome;
use epguard_lab::scenario::stage::Stage;

const CONNECTIONS: usize = 10_000;
const CHUNK: usize = 1 << 20;
const CHUNKS: usize = 1024;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn ten_thousand_connections_all_reach_the_live_endpoint_and_none_another_pod() {
    let stage = stage();
    let (live, stranger, plain) = (echo(&stage, "L"), echo(&stage, "B"), echo(&stage, "C"));
    let redirected = first_answers(&stage, "old/web");
    let not_redirected = first_answers(&stage, "ok/api");
    let counted = |count: &std::sync::atomic::AtomicUsize| count.load(Ordering::SeqCst);
    assert_eq!((counted(&live), counted(&stranger), counted(&plain)), (CONNECTIONS, 0, CONNECTIONS));
    let failed = stage.counters().unwrap().with_outcome(Outcome::RedirectFailed);
    assert_eq!(failed, 0, "packets that could not be steered");
    println!(
        "{CONNECTIONS} connections each, connect to first answer: steered {redirected:.0?}, not steered {not_redirected:.0?}, ratio {:.2}",
        redirected.as_secs_f64() / not_redirected.as_secs_f64()
    );
}

/// The median time to the first answer.
fn first_answers(stage: &Stage, service: &str) -> Duration {
    let to = vip(stage, service);
    let call = |number: usize| {
        let begun = Instant::now();
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_mins(1)).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        stream.write_all(&number.to_be_bytes()).unwrap();
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, number.to_be_bytes());
        begun.elapsed()
    };
    let mut times: Vec<Duration> =
        netns(stage, "client").run(|| (0..CONNECTIONS).map(call).collect()).unwrap();
    times.sort_unstable();
    times[CONNECTIONS / 2]
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_gibibyte_is_sent_and_returned_byte_for_byte() {
    let stage = stage();
    let (live, _plain) = (echo(&stage, "L"), echo(&stage, "C"));
    let redirected = there_and_back(&connect(&stage, "old/web").unwrap());
    let not_redirected = there_and_back(&connect(&stage, "ok/api").unwrap());
    assert_eq!(live.load(Ordering::SeqCst), 1);
    println!(
        "1 GiB there and back: steered {redirected:.1?}, not steered {not_redirected:.1?}, throughput ratio {:.2}",
        not_redirected.as_secs_f64() / redirected.as_secs_f64()
    );
}

/// Sends and receives chunks that all differ, so that a swap of two is seen.
fn there_and_back(stream: &TcpStream) -> Duration {
    let begun = Instant::now();
    let mut receiver = stream.try_clone().unwrap();
    let receiving = thread::spawn(move || {
        let mut got = vec![0; CHUNK];
        for number in 0..CHUNKS {
            receiver.read_exact(&mut got).unwrap();
            assert!(got == chunk(number), "chunk {number} is another one");
        }
        assert_eq!(receiver.read(&mut got).unwrap(), 0, "more than was sent");
    });
    let mut sender = stream;
    for number in 0..CHUNKS {
        sender.write_all(&chunk(number)).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    receiving.join().unwrap();
    begun.elapsed()
}

fn chunk(number: usize) -> Vec<u8> {
    (number * 2_654_435_761).to_le_bytes().repeat(CHUNK / 8)
}
