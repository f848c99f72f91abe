//! `cargo xtask bench`: what a packet costs, by program test runs, all in one run on one machine.
//!
//! Best of five times a million packets; compare the rows with each other, not with another machine's.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../tests/kernel/programs/frames.rs"]
mod frames;
#[path = "../tests/kernel/programs/kernel.rs"]
mod kernel;
#[path = "../tests/kernel/programs/rig.rs"]
mod rig;
#[path = "../tests/kernel/programs/world.rs"]
mod world;

use comfy_table::{Table, presets::NOTHING};
use epguard_common::{Addr, Config, Mode, View};
use frames::{SYN, TCP, frame, packet, tcp};
use rig::{BOTH, Rig};
use std::time::Duration;
use world::{ENFORCE, PORT, REUSED, REUSED_V6};

const FROM: &str = "epguard_from";
const TO: &str = "epguard_to";

fn main() {
    let syn = |dst| frame(&packet(dst, TCP, &tcp(PORT, SYN)));
    let (denied, denied_v6, elsewhere) = (syn(REUSED), syn(REUSED_V6), syn(Addr::v4([10, 244, 1, 99])));
    let mut idle = Rig::new();
    idle.vouch(View::default());
    let mut active = Rig::new();
    active.configure(Config {
        mode: Mode::Observe,
        ..ENFORCE
    });
    let rows = [
        ("no suspects: From", cost(&mut idle, FROM, &denied)),
        ("no suspects: To", cost(&mut idle, TO, &denied)),
        (
            "active: From, a VIP that is affected",
            cost(&mut active, FROM, &denied),
        ),
        (
            "active: From, another destination",
            cost(&mut active, FROM, &elsewhere),
        ),
        ("active: To, no suspect", cost(&mut active, TO, &elsewhere)),
        (
            "active: To, a suspect without intent",
            cost(&mut active, TO, &denied),
        ),
        (
            "active: From and To, denied in observe",
            cost(&mut active, BOTH, &denied),
        ),
        (
            "active: From and To, denied in observe, IPv6",
            cost(&mut active, BOTH, &denied_v6),
        ),
    ];
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(["PACKET", "NS"]);
    table.add_rows(rows.map(|(name, cost)| [name.to_owned(), cost.as_nanos().to_string()]));
    println!("{table}");
}

/// Of a packet, the best of five times a million.
fn cost(rig: &mut Rig, program: &str, frame: &[u8]) -> Duration {
    let run = || rig.repeat(program, frame, [0; 192], 1_000_000).duration;
    std::iter::repeat_with(run).take(5).min().unwrap()
}
