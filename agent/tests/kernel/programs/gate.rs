//! The gate ends packets that need no verdict, and no others: `differential` has frames of all
//! kinds.

use super::*;

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn without_the_table_every_packet_is_judged() {
    let mut rig = Rig::new();
    let none = Gates {
        first: Gate {
            valid: 0,
            ..Gates::EMPTY.first
        },
        ..Gates::EMPTY
    };
    rig.set_gates(&none);
    rig.expect("no first table", &syn(REUSED), DENIED);
    rig.set_gates(&Gates::EMPTY);
    let ran = rig.run(BOTH, &syn(REUSED));
    assert_eq!(
        ran.action,
        super::rig::PASS,
        "empty tables end every packet"
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn the_second_table_ends_packets_that_share_a_bucket_of_the_first_once_it_is_written() {
    let mut rig = Rig::new();
    let mut judges = |change: fn(&mut Gates)| {
        let mut gates = rig.gates();
        change(&mut gates);
        rig.set_gates(&gates);
        rig.run(BOTH, &syn(REUSED)).action == DROP
    };
    assert!(judges(|_| ()), "both have the bit");
    assert!(
        !judges(|gates| gates.first = Gates::EMPTY.first),
        "the first lacks it"
    );
    assert!(
        !judges(|gates| *gates = Gates {
            first: gates.first,
            ..Gates::EMPTY
        }),
        "the second lacks it"
    );
    let by_an_agent_without = |gates: &mut Gates| {
        *gates = Gates {
            first: gates.first,
            ..Gates::EMPTY
        };
        gates.first.valid &= !Gate::HAS_SECOND;
    };
    assert!(
        judges(by_an_agent_without),
        "an agent that does not know the second wrote the first"
    );
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn redirected_flows_take_no_other_packet_off_the_fast_path() {
    let mut rig = Rig::new();
    rig.write_view(View { flows: 1, ..FRESH });
    let mut is_judged = |change: fn(&mut Gates)| {
        // Without the bit of a suspect, its packets show whether they were judged all the same.
        let mut gates = Gates::EMPTY;
        change(&mut gates);
        rig.set_gates(&gates);
        rig.forget_counters();
        rig.run("epguard_to", &syn(REUSED));
        !rig.counters().is_empty()
    };
    assert!(
        !is_judged(|_| ()),
        "no flow goes there, and none comes from there"
    );
    assert!(is_judged(|gates| gates.add(REUSED, Gate::FLOW)));
    assert!(is_judged(|gates| gates.add(Addr::v4(SRC_V4), Gate::FLOW)));
    assert!(
        is_judged(|gates| gates.first.valid &= !Gate::SHOWS_FLOWS),
        "the flows are unknown"
    );
}
