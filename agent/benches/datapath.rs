//! `cargo xtask bench`: what a packet costs, by program test runs, all in one run on one machine.
//!
//! Best of five times a million packets; compare the rows with each other, not with another machine's.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../tests/programs/frames.rs"]
mod frames;
#[path = "../tests/programs/kernel.rs"]
mod kernel;

use comfy_table::{Table, presets::NOTHING};
use epguard_common::{Mode, Reason, UidState};
use frames::{SYN, TCP, ipv4, ipv6, tcp, x4, x6};
use kernel::Kernel;

fn main() {
    let syn = ipv4(TCP, &tcp(8080, SYN));
    let mut elsewhere = syn.clone();
    elsewhere[33] = 11;
    let six = ipv6(TCP, &tcp(8080, SYN));
    let mut idle = Kernel::new();
    let mut active = Kernel::denying(x4(), Reason::Reused, UidState::Dead);
    active.configure(Mode::Observe);
    let mut active6 = Kernel::denying(x6(), Reason::Reused, UidState::Dead);
    active6.configure(Mode::Observe);
    let rows = [
        ("no suspects: From", idle.cost("epguard_from", &syn)),
        ("no suspects: To", idle.cost("epguard_to", &syn)),
        (
            "active: From, a VIP that is affected",
            active.cost("epguard_from", &syn),
        ),
        (
            "active: From, another destination",
            active.cost("epguard_from", &elsewhere),
        ),
        ("active: To, no suspect", active.cost("epguard_to", &elsewhere)),
        (
            "active: To, a suspect without intent",
            active.cost("epguard_to", &syn),
        ),
        (
            "active: From and To, denied in observe",
            active.cost("epguard_selftest", &syn),
        ),
        (
            "active: From and To, denied in observe, IPv6",
            active6.cost("epguard_selftest", &six),
        ),
    ];
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(["PACKET", "NS"]);
    table.add_rows(rows.map(|(name, cost)| [name.to_owned(), cost.to_string()]));
    println!("{table}");
}
