//! Stale packets that a processor absorbs while the good traffic on it keeps 95 % of its rate.
//!
//! One thread makes requests to the live Service, and sends stale packets between them at rising rates.

use super::bed::STALE_SERVICE;
use super::filters::Filter;
use super::form::{Comparison, Row, Table, is_quick};
use super::generator::{Generator, Passing};
use super::loads::requests;
use super::setup::{Setup, Stage};
use super::stale::orphan;
use super::support::{number, used};
use epguard_common::Mode;
use std::net::SocketAddrV4;
use std::time::Duration;

/// Stale packets for each second of processor time; 0 is the undisturbed rate.
const RATES: [u32; 6] = [0, 50_000, 100_000, 200_000, 400_000, 0];
const SLOT: Duration = Duration::from_millis(50);
/// The kernel prepares for each burst: they are rare and long.
const BURSTS: u32 = 100;
/// Loss that the good traffic may have.
const LOSS: f64 = 0.05;

const ENFORCE: Setup = Setup::Active(Mode::Enforce);
/// To orphan IPs: epguard drops at the ingress hook, or by XDP.
const TO_ORPHANS: [(&str, Setup); 6] = [
    ("epguard, ingress hook", ENFORCE),
    ("epguard, XDP", Setup::Xdp),
    ("nftables set in prerouting", Setup::Filter(Filter::Nftables)),
    ("nftables set at netdev ingress", Setup::Filter(Filter::NftablesNetdev)),
    ("ipset in prerouting", Setup::Filter(Filter::Ipset)),
    ("the node's blackhole route", Setup::Nothing),
];
/// To a Service that lists an IP which another pod has now: epguard drops at the egress hook.
const TO_SERVICE: [(&str, Setup); 2] =
    [("epguard, egress hook", ENFORCE), ("nftables set behind DNAT", Setup::Filter(Filter::NftablesForward))];

/// Tables of packets a second by setup.
pub(crate) fn tables(stage: &mut Stage) -> Vec<Table> {
    stage.bed.node().enter().unwrap();
    let orphans = (0..16).map(|number| SocketAddrV4::new(orphan(number * 50), 8080));
    let mut to_orphans = Generator::new(&stage.bed, orphans, true);
    let mut to_service = Generator::new(&stage.bed, [STALE_SERVICE], false);
    let orphans = rows(stage, &TO_ORPHANS, &mut to_orphans);
    let service = rows(stage, &TO_SERVICE, &mut to_service);
    let table = |name: &str, to: &str, rows| Table {
        name: name.to_owned(),
        title: format!("Stale packets to {to} that cost the good traffic 5 % of its rate"),
        unit: "1/s".to_owned(),
        notes: Vec::new(),
        rows,
    };
    vec![
        table("absorb", "orphan IPs", orphans),
        table("absorb-service", "a Service with a reused IP", service),
    ]
}

fn rows(stage: &mut Stage, setups: &[(&str, Setup)], generator: &mut Generator) -> Vec<Row> {
    let rounds = number("ROUNDS", if is_quick() { 3 } else { 25 });
    let mut passing = Passing::load();
    let mut seen = vec![Vec::new(); setups.len()];
    for _ in 0..rounds {
        for ((_, setup), seen) in setups.iter().zip(&mut seen) {
            stage.set(*setup);
            seen.push(absorbed(stage, *setup, generator, &mut passing));
        }
    }
    stage.set(Setup::Nothing);
    let samples = seen.into_iter();
    let rows = setups.iter().zip(samples).map(|((name, setup), samples)| {
        let row = Row::new(*name, "", samples);
        let is_ours = matches!(setup, Setup::Active(_) | Setup::Xdp);
        let peers = setups.iter().filter(|(_, peer)| is_ours && matches!(peer, Setup::Filter(_)));
        peers.fold(row, |row, (peer, _)| {
            row.compare(Comparison { at_least: Some(1.0), ..Comparison::with(*peer) })
        })
    });
    rows.collect()
}

/// The rate at which the good traffic loses [`LOSS`]: its loss grows with the rate, by the processor time of each packet.
fn absorbed(stage: &mut Stage, setup: Setup, generator: &mut Generator, passing: &mut Passing) -> f64 {
    let mut request = requests(&stage.bed);
    let before = stage.epguard.dropped();
    let program = if setup == Setup::Xdp { stage.epguard.xdp() } else { passing.program() };
    let mut sent = 0;
    let mut good = |rate: u32| {
        let burst = rate / BURSTS;
        let (begun, mut done, mut bursts) = (used(), 0.0, 0);
        loop {
            let elapsed = used().saturating_sub(begun);
            if elapsed >= SLOT {
                return done / elapsed.as_secs_f64();
            }
            if burst > 0 && elapsed.as_secs_f64() * f64::from(BURSTS) >= f64::from(bursts) {
                generator.send(program, burst);
                (bursts, sent) = (bursts + 1, sent + u64::from(burst));
            }
            done += request();
        }
    };
    good(0);
    let rates = RATES.map(&mut good);
    let undisturbed = f64::midpoint(rates[0], rates[RATES.len() - 1]);
    // Least squares through the origin.
    let (mut products, mut squares) = (0.0, 0.0);
    for (rate, good) in RATES.map(f64::from).into_iter().zip(rates) {
        products += rate * (1.0 - good / undisturbed);
        squares += rate * rate;
    }
    let dropped = stage.epguard.dropped() - before;
    let ours = matches!(setup, Setup::Active(_) | Setup::Xdp);
    // Packets of a new flow that come together may lose the race for their entry in conntrack.
    assert!(!ours || dropped * 100 > sent * 99, "{setup:?}: {dropped} of {sent} dropped");
    LOSS * squares / products
}
