//! What switches denials off: modes, the lease, all-zero maps, numbers that no epguard wrote.

use super::frames::{SYN, TCP, frame, packet, tcp};
use super::rig::Rig;
use super::world::{DENIED, ENFORCE, FRESH, PORT, REUSED, denial, target};
use epguard::shared::clock::boot_ns;
use epguard_common::Mode::{self, Enforce, Observe, Off};
use epguard_common::Verdict::{self, Clear, Deny, Pass};
use epguard_common::{
    Config, DenialKey, Keyed, Outcome, RawConfig, RawDenial, Reason, ReasonModes, UidState, View,
};

const WOULD_BE_DENIED: Verdict = Verdict::Deny { reason: Reason::Reused, enforce: false };
const SWITCHED_OFF: Verdict = Pass(Reason::Reused, Outcome::Off);

fn syn() -> Vec<u8> {
    frame(&packet(REUSED, TCP, &tcp(PORT, SYN)))
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn the_lower_of_the_two_modes_is_in_force() {
    let mut rig = Rig::new();
    let table = [
        (Off, Enforce, Clear),
        (Off, Off, Clear),
        (Observe, Off, SWITCHED_OFF),
        (Observe, Observe, WOULD_BE_DENIED),
        (Observe, Enforce, WOULD_BE_DENIED),
        (Enforce, Off, SWITCHED_OFF),
        (Enforce, Observe, WOULD_BE_DENIED),
        (Enforce, Enforce, DENIED),
    ];
    for (mode, reused, verdict) in table {
        let reasons = ReasonModes { reused, ..ENFORCE.reasons };
        rig.configure(Config { mode, reasons, ..ENFORCE });
        rig.expect(&format!("{mode:?}, reused {reused:?}"), &syn(), verdict);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn each_reason_obeys_its_own_mode() {
    let only = |reason| {
        let mode = |own| if own == reason { Enforce } else { Off };
        ReasonModes::of_each(mode)
    };
    let mut rig = Rig::new();
    for reason in Reason::ALL {
        rig.deny(&target(REUSED, TCP), denial(reason, UidState::Dead));
        for on in Reason::ALL {
            rig.configure(Config { reasons: only(on), ..ENFORCE });
            let verdict = match reason {
                Reason::Nothing => Pass(reason, Outcome::Off),
                _ if reason == on => Verdict::Deny { reason, enforce: true },
                _ => Pass(reason, Outcome::Off),
            };
            rig.expect(&format!("{reason:?} while {on:?} is on"), &syn(), verdict);
        }
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn past_the_lease_everything_passes() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let mut rig = Rig::new();
    let expired = Pass(Reason::Reused, Outcome::LeaseExpired);
    let table = [(boot_ns() + HOUR_NS, DENIED), (boot_ns(), expired), (1, expired), (0, expired)];
    for (lease_deadline_ns, verdict) in table {
        rig.write_view(View { lease_deadline_ns, ..FRESH });
        rig.expect(&format!("a lease until {lease_deadline_ns}"), &syn(), verdict);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn empty_maps_deny_nothing() {
    let mut rig = Rig::new();
    rig.configure(Config::default());
    rig.expect("an all-zero CONFIG", &syn(), Clear);
    rig.configure(ENFORCE);
    rig.write_view(View::default());
    rig.expect("an all-zero VIEW", &syn(), Clear);
    rig.write_view(View { suspects: 0, ..FRESH });
    rig.expect("no suspects", &syn(), Clear);
    rig.write_view(FRESH);
    rig.expect("as it was", &syn(), DENIED);
}

/// Numbers in CONFIG.
const CONFIG: usize = size_of::<RawConfig>() / 4;

/// CONFIG as numbers: the mode, that of `reused` and of every other reason; everything else is `rest`.
fn settings(mode: u32, reused: u32, others: u32, rest: u32) -> [u32; CONFIG] {
    let mut words = [rest; CONFIG];
    words[0] = mode;
    for reason in Reason::TO_DENY {
        words[reason as usize] = if reason == Reason::Reused { reused } else { others };
    }
    words[CONFIG - 1] = 0;
    words
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn numbers_that_are_no_mode_are_off() {
    let mut rig = Rig::new();
    for garbage in [5, 77, 0x100, 0x0200_0000, u32::MAX] {
        let (off, on) = (garbage, Mode::Enforce as u32);
        rig.set("CONFIG", settings(off, on, on, 0));
        rig.expect(&format!("mode {garbage}"), &syn(), Clear);
        rig.set("CONFIG", settings(on, off, on, 0));
        rig.expect(&format!("reused {garbage}"), &syn(), SWITCHED_OFF);
        rig.set("CONFIG", settings(on, on, off, garbage));
        rig.expect(&format!("the other fields {garbage}"), &syn(), DENIED);
    }
    rig.set("CONFIG", [0xff_u8; size_of::<RawConfig>()]);
    rig.expect("CONFIG all ones", &syn(), Clear);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn numbers_that_are_no_proof_deny_nothing() {
    let mut rig = Rig::new();
    let words = |reason: u32, uid_state: u32| RawDenial {
        reason,
        uid_state,
        mode: Mode::Enforce as u32,
        ..RawDenial::default()
    };
    let (reused, dead) = (Reason::Reused as u32, UidState::Dead as u32);
    for garbage in [8, 77, 0x102, 0x0200_0000, u32::MAX] {
        rig.deny(&target(REUSED, TCP), words(garbage, dead));
        rig.expect(&format!("reason {garbage}"), &syn(), Pass(Reason::Nothing, Outcome::NotDenied));
        rig.deny(&target(REUSED, TCP), words(reused, garbage));
        rig.expect(&format!("uid_state {garbage}"), &syn(), Pass(Reason::Reused, Outcome::Established));
    }
    for held in [1, 77, u32::MAX] {
        let mut denial = words(reused, dead);
        denial.held = held;
        rig.deny(&target(REUSED, TCP), denial);
        let observed = Deny { reason: Reason::Reused, enforce: false };
        rig.expect(&format!("held {held}"), &syn(), observed);
    }
    rig.put("DENIED", &target(REUSED, TCP), [0xff_u8; size_of::<Keyed<DenialKey, RawDenial>>()]);
    rig.expect("DENIED all ones", &syn(), Pass(Reason::Nothing, Outcome::NotDenied));
    rig.deny(&target(REUSED, TCP), words(reused, dead));
    rig.expect("a proof", &syn(), DENIED);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn the_datapaths_log_changes_no_verdict() {
    let mut rig = Rig::new();
    rig.configure(Config { debug: 1, ..ENFORCE });
    rig.expect("enforce", &syn(), DENIED);
    rig.configure(Config { debug: 1, mode: Observe, ..ENFORCE });
    rig.expect("observe", &syn(), WOULD_BE_DENIED);
}
