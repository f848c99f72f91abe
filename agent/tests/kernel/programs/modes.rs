//! What switches denials off: the lease, all-zero maps, numbers that no epguard wrote.
//! `differential` has the modes.

use super::*;
use Mode::Observe;
use Verdict::{Clear, Deny, Pass};
use epguard::shared::clock::boot_ns;

const WOULD_BE_DENIED: Verdict = Verdict::Deny {
    reason: Reason::Reused,
    enforce: false,
};
const SWITCHED_OFF: Verdict = Pass(Reason::Reused, Outcome::Off);

fn syn() -> Vec<u8> {
    world::syn(REUSED)
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn denials_are_in_force_while_the_lease_lasts_and_empty_maps_deny_nothing() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let expired = Pass(Reason::Reused, Outcome::LeaseExpired);
    let leased = |lease_deadline_ns| View {
        lease_deadline_ns,
        ..FRESH
    };
    let mut rig = Rig::new();
    for (name, config, view, verdict) in [
        (
            "a lease of an hour",
            ENFORCE,
            leased(boot_ns() + HOUR_NS),
            DENIED,
        ),
        ("one that ends now", ENFORCE, leased(boot_ns()), expired),
        ("one that ended", ENFORCE, leased(1), expired),
        ("none", ENFORCE, leased(0), expired),
        ("an all-zero CONFIG", Config::default(), FRESH, Clear),
        ("an all-zero VIEW", ENFORCE, View::default(), Clear),
        (
            "the log",
            Config {
                debug: 1,
                ..ENFORCE
            },
            FRESH,
            DENIED,
        ),
        (
            "the log in observe",
            Config {
                debug: 1,
                mode: Observe,
                ..ENFORCE
            },
            FRESH,
            WOULD_BE_DENIED,
        ),
        ("as it was", ENFORCE, FRESH, DENIED),
    ] {
        rig.configure(config);
        rig.write_view(view);
        rig.expect(name, &syn(), verdict);
    }
}

/// Numbers in CONFIG.
const CONFIG: usize = size_of::<RawConfig>() / 4;

/// CONFIG as numbers: the mode, that of `reused` and of every other reason; everything else is
/// `rest`.
fn settings(mode: u32, reused: u32, others: u32, rest: u32) -> [u32; CONFIG] {
    let mut words = [rest; CONFIG];
    words[0] = mode;
    for reason in Reason::TO_DENY {
        words[reason as usize] = if reason == Reason::Reused {
            reused
        } else {
            others
        };
    }
    words[CONFIG - 1] = 0;
    words
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn numbers_that_are_no_mode_are_off_and_those_that_are_no_action_drop() {
    let mut rig = Rig::new();
    for garbage in [5, 77, 0x100, 0x0200_0000, u32::MAX] {
        let off = garbage;
        let on = Mode::Enforce as u32;
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
    let reused = Reason::Reused as u32;
    let dead = UidState::Dead as u32;
    for garbage in [8, 77, 0x102, 0x0200_0000, u32::MAX] {
        rig.deny(&target(REUSED, TCP), words(garbage, dead));
        rig.expect(
            &format!("reason {garbage}"),
            &syn(),
            Pass(Reason::Nothing, Outcome::NotDenied),
        );
        rig.deny(&target(REUSED, TCP), words(reused, garbage));
        rig.expect(
            &format!("uid_state {garbage}"),
            &syn(),
            Pass(Reason::Reused, Outcome::Established),
        );
    }
    for stopped in [1, 77, u32::MAX] {
        let mut denial = words(reused, dead);
        denial.stopped = stopped;
        rig.deny(&target(REUSED, TCP), denial);
        let observed = Deny {
            reason: Reason::Reused,
            enforce: false,
        };
        rig.expect(&format!("stopped {stopped}"), &syn(), observed);
    }
    rig.put(
        "DENIED",
        &target(REUSED, TCP),
        [0xff_u8; size_of::<Keyed<DenialKey, RawDenial>>()],
    );
    rig.expect(
        "DENIED all ones",
        &syn(),
        Pass(Reason::Nothing, Outcome::NotDenied),
    );
    rig.deny(&target(REUSED, TCP), words(reused, dead));
    rig.expect("a proof", &syn(), DENIED);
}
