//! `cargo xtask bench propagation`: time from an event at the API server to the maps, and to the first denied packet.
//!
//! The real agent, the lab's API server, and a client that sends a datagram to the Service every 50 µs. The event: the last
//! container of a pod ends. The Service lists the pod still. `ROUNDS=10` is quicker.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "propagation/cluster.rs"]
mod cluster;
#[path = "../../xtask/src/bench/form.rs"]
mod form;
#[path = "propagation/objects.rs"]
mod objects;
#[path = "support/mod.rs"]
mod support;

use cluster::{Cluster, PODS, Took};
use form::{Better, Row, Table, is_quick};
use std::thread::sleep;
use std::time::Duration;
use support::changes::Changes;
use support::{number, percentile};

/// Changes a second of objects that have nothing to do with the node.
const PER_SECOND: u32 = 1_000;
/// Objects that change in turn.
const OBJECTS: u32 = 1_000;

fn main() {
    let rounds = number::<u16>("ROUNDS", if is_quick() { 3 } else { 60 }).min(PODS / 2);
    let runtime = support::runtime();
    let _context = runtime.enter();
    let mut cluster = Cluster::start();
    let mut pods = 0..PODS;
    let mut measure = |cluster: &mut Cluster| -> Vec<Took> {
        let next = pods.by_ref().take(usize::from(rounds));
        next.map(|pod| {
            // Not in step with the agent's timers.
            sleep(Duration::from_millis(20 + fastrand::u64(0..80)));
            cluster.kill(pod)
        })
        .collect()
    };
    let idle = measure(&mut cluster);
    let store = cluster.store().clone();
    let changes = Changes::start(PER_SECOND, move |made| {
        store.apply(objects::other(made % OBJECTS, made)).unwrap();
    });
    // The first ones make the objects.
    sleep(Duration::from_secs(2));
    let busy = measure(&mut cluster);
    let per_second = changes.stop();
    let busy_name = format!("{PER_SECOND} changes a second");
    let mut notes = Vec::new();
    let mut rows = Vec::new();
    for (what, of) in [
        ("map", (|took| took.map) as fn(&Took) -> Duration),
        ("first denied packet", |took| took.packet),
    ] {
        for (load, took) in [("idle", &idle), (&busy_name, &busy)] {
            let name = format!("to the {what}, {load}");
            let samples: Vec<f64> = took.iter().map(|took| of(took).as_secs_f64() * 1e3).collect();
            notes.push(format!("{name}: {}.", distribution(&samples)));
            rows.push(Row::new(name, "", samples));
        }
    }
    notes.push(format!("The changes came at {per_second:.0} a second."));
    let table = Table {
        name: "propagation".to_owned(),
        title: "From the event at the API server".to_owned(),
        unit: "ms".to_owned(),
        better: Better::Lower,
        notes,
        rows,
    };
    form::hand_over(&[table]).unwrap();
}

fn distribution(samples: &[f64]) -> String {
    let [least, median, most] = [0, 50, 99].map(|percent| percentile(samples, percent));
    let events = samples.len();
    format!("minimum {least:.2}, median {median:.2}, 99 % {most:.2} ms of {events} events")
}
