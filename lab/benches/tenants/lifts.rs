//! From the receipt of a fact that ends the denial of one Service to the kernel's map, while
//! another namespace writes.

#[path = "../../tests/agent/real_loop/mod.rs"]
mod real_loop;

use epguard::watch::Message;
use epguard_core::facts::Fact;
use epguard_lab::figures::{Row, Table, percentile};
use epguard_lab::wait::{self, Repeated};
use real_loop::neighbour::{Neighbour, all};
use real_loop::{Judged, RealLoop, message, victim};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;

/// How often the denial ends.
const LIFTS: usize = 200;

/// Between two writes of the neighbour.
const EACH: Duration = Duration::from_millis(50);

/// Between two lifts.
const PAUSE: Duration = Duration::from_millis(17);

/// The longest wait at the 99th percentile, in milliseconds.
const LIMIT: f64 = 20.0;

/// A row for each neighbour.
pub(crate) fn table() -> Table {
    let mut table =
        Table::new("The end of a denial while another namespace writes 20 times a second");
    for neighbour in all(false) {
        let name = neighbour.name;
        let samples = waits(neighbour);
        let slow = percentile(&samples, 99).unwrap();
        table.rows.push(Row::new(name, "ms", samples));
        table
            .rows
            .push(Row::new(format!("{name}, 99 %"), "ms", [slow]).at_most(LIMIT));
    }
    table
}

/// Milliseconds from each lift to the map.
fn waits(neighbour: Neighbour) -> Vec<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut real_loop = RealLoop::synced().await;
        for fact in neighbour.objects {
            real_loop.send(fact);
            real_loop.settle().await;
        }
        victim::deny(&mut real_loop).await;
        let _neighbour = write(&real_loop, neighbour.writes);
        let watches = real_loop.watches.clone();
        let judged = real_loop.judged();
        let lifts = std::thread::spawn(move || lift(&watches, &judged));
        while !lifts.is_finished() {
            real_loop.turn().await;
        }
        lifts.join().unwrap()
    })
}

/// Writes as the neighbour until dropped.
fn write(real_loop: &RealLoop, writes: Vec<Fact>) -> Repeated {
    let watches = real_loop.watches.clone();
    Repeated::start(move || {
        let mut next = 0;
        move || {
            if let Some(fact) = writes.get(next % writes.len().max(1)) {
                let _ = watches.blocking_send(message(fact.clone()));
            }
            next += 1;
            sleep(EACH);
        }
    })
}

/// Ends the denial and lets it be proven anew, each once the map has what was before. Reads the map
/// itself, since a turn goes on after its write.
fn lift(watches: &Sender<Message>, judged: &Judged) -> Vec<f64> {
    let mut samples = Vec::new();
    for number in 10..10 + LIFTS {
        sleep(PAUSE);
        let lift = victim::lift(number);
        let again = victim::deny_again(number);
        let sent = Instant::now();
        let _ = watches.blocking_send(message(lift));
        until_judged(judged, false);
        samples.push(sent.elapsed().as_secs_f64() * 1e3);
        for fact in again {
            let _ = watches.blocking_send(message(fact));
        }
        until_judged(judged, true);
    }
    samples
}

/// Waits until the map has the Service's VIP, or lacks it.
fn until_judged(judged: &Judged, wanted: bool) {
    let missing =
        || Ok((judged.has(&victim::vip()) != wanted).then(|| "no write of the map".to_owned()));
    wait::until(Duration::from_micros(50), missing).unwrap();
}
