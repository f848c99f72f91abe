//! From the receipt of a fact that ends the denial of one Service to the kernel's map, while another namespace writes.

#[path = "../../tests/agent/real_loop/mod.rs"]
mod real_loop;

use epguard_core::facts::Fact;
use epguard_lab::figures::{Row, Table, percentile};
use epguard_lab::wait::Repeated;
use real_loop::neighbour::{Neighbour, all};
use real_loop::{RealLoop, message, victim};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

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
    let mut table = Table::new("The end of a denial while another namespace writes 20 times a second");
    for neighbour in all(false) {
        let name = neighbour.name;
        let samples = waits(neighbour);
        let slow = percentile(&samples, 99).unwrap();
        table.rows.push(Row::new(name, "ms", samples));
        table.rows.push(Row::new(format!("{name}, 99 %"), "ms", [slow]).at_most(LIMIT));
    }
    table
}

/// What has just been sent for the Service.
#[derive(Clone, Copy)]
enum Sent {
    Lift(Instant),
    DenyAgain,
}

/// Milliseconds from each lift to the map.
fn waits(neighbour: Neighbour) -> Vec<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut real_loop = RealLoop::synced().await;
        for fact in neighbour.objects {
            real_loop.send(fact);
            real_loop.settle().await;
        }
        victim::deny(&mut real_loop).await;
        let _neighbour = write(&real_loop, neighbour.writes);
        let (sends, sent) = channel();
        let (answers, answered) = channel();
        let watches = real_loop.watches.clone();
        std::thread::spawn(move || lift(&watches, &sends, &answered));
        measure(&mut real_loop, &sent, &answers).await
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

/// Ends the denial and lets it be proven anew, each once the map has what was before.
fn lift(
    watches: &tokio::sync::mpsc::Sender<epguard::watch::Message>,
    sends: &Sender<Sent>,
    answered: &Receiver<()>,
) {
    for number in 10..10 + LIFTS {
        sleep(PAUSE);
        let (lift, again) = (victim::lift(number), victim::deny_again(number));
        let _ = sends.send(Sent::Lift(Instant::now()));
        let _ = watches.blocking_send(message(lift));
        let _ = answered.recv();
        let _ = sends.send(Sent::DenyAgain);
        for fact in again {
            let _ = watches.blocking_send(message(fact));
        }
        let _ = answered.recv();
    }
}

async fn measure(real_loop: &mut RealLoop, sent: &Receiver<Sent>, answers: &Sender<()>) -> Vec<f64> {
    let (mut samples, mut waits_for) = (Vec::new(), None);
    while samples.len() < LIFTS {
        real_loop.turn().await;
        waits_for = waits_for.or_else(|| sent.try_recv().ok());
        match waits_for {
            Some(Sent::Lift(at)) if !real_loop.judges(&victim::vip()) => {
                samples.push(at.elapsed().as_secs_f64() * 1e3);
            }
            Some(Sent::DenyAgain) if real_loop.judges(&victim::vip()) => {}
            _ => continue,
        }
        waits_for = None;
        let _ = answers.send(());
    }
    samples
}
