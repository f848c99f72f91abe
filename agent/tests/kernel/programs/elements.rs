//! Elements that became another key's between the lookup and the read: the value shows it, and
//! nothing is denied on it.

use super::*;
use Verdict::{Clear, Pass};

/// A Service that nothing is denied to.
const OTHER: ServiceNumber = ServiceNumber { number: 77 };

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_denial_of_another_key_denies_nothing() {
    let mut rig = Rig::new();
    let key = target(REUSED, TCP);
    let value = RawDenial::from(denial(Reason::Reused, UidState::Dead));
    let others = [
        ("address", target(MOVED, TCP)),
        ("protocol", target(REUSED, 17)),
        (
            "port",
            epguard_common::DenialKey {
                port: PORT + 1,
                ..key
            },
        ),
        (
            "Service",
            epguard_common::DenialKey {
                service: OTHER,
                ..key
            },
        ),
    ];
    for (what, other) in others {
        rig.put("DENIED", &key, Keyed { key: other, value });
        let passes = Pass(Reason::Nothing, Outcome::NotDenied);
        rig.expect(&format!("another {what}"), &syn(REUSED), passes);
    }
    rig.deny(&key, value);
    rig.expect("its own", &syn(REUSED), DENIED);
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn the_service_of_another_vip_and_the_suspect_at_another_address_are_none() {
    let mut rig = Rig::new();
    let key = vip(REUSED, PORT, TCP);
    let value = SHOP;
    for other in [
        vip(MOVED, PORT, TCP),
        vip(REUSED, PORT + 1, TCP),
        vip(REUSED, PORT, 17),
    ] {
        rig.put("SERVICES", &key, Keyed { key: other, value });
        let passes = Pass(Reason::Nothing, Outcome::NoIntent);
        rig.expect(&format!("{other:?}"), &syn(REUSED), passes);
    }
    rig.affect(&key, SHOP);
    rig.expect("its own", &syn(REUSED), DENIED);
    let key = MOVED;
    let value = suspect(Suspect::DENIED);
    rig.put("SUSPECTS", &REUSED, Keyed { key, value });
    rig.expect("another address", &syn(REUSED), Clear);
}
