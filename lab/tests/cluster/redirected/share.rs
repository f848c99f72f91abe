//! One pod opens thousands of redirected connections, and keeps them. Other pods' connections go on, old and new ones.

use std::net::TcpStream;

use super::place::{call, connect, connect_from, echo, stage};
use crate::stage::{netns, vip};
use epguard_common::{Outcome, Reason};
use epguard_lab::traffic::{Client, Flood};

/// More than a client's share of 2,048.
const OPENED: u64 = 2_500;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_client_with_thousands_of_redirected_connections_takes_no_room_from_others() {
    let stage = stage();
    let _server = echo(&stage, "L");
    let mut older = connect(&stage, "old/web").unwrap();
    call(&mut older).unwrap();
    let to = vip(&stage, "old/web");
    let open = |_| connect_from(&stage, "C", to).unwrap();
    let mut taken: Vec<TcpStream> = (0..OPENED).map(open).collect();
    for stream in &mut taken {
        call(stream).unwrap();
    }
    let counters = stage.counters().unwrap();
    let beyond = counters.of(Reason::Nothing, Outcome::BeyondShare);
    assert_eq!(beyond, OPENED - 2_048, "{counters}");
    let mut younger = connect(&stage, "old/web").unwrap();
    call(&mut younger).unwrap();
    // This evicts 16,384 opening flows: all flows beyond their client's share are lost.
    let flood = Flood { to, per_second: 24_000, count: 60_000 };
    Client::new(netns(&stage, "C")).flood(flood).unwrap();
    call(&mut older).unwrap();
    call(&mut younger).unwrap();
    // The greedy client's own share stays as well.
    for stream in taken.iter_mut().take(1_000) {
        call(stream).unwrap();
    }
}
