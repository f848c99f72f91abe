//! The gate ends packets that need no verdict, and no others: `differential` has frames of all kinds.

use super::*;

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn without_the_table_every_packet_is_judged() {
    let mut rig = Rig::new();
    let none = Gate { valid: 0, ..Gate::EMPTY };
    rig.set("GATE", none);
    rig.expect("no table", &syn(REUSED), DENIED);
    rig.set("GATE", Gate::EMPTY);
    let ran = rig.run(BOTH, &syn(REUSED));
    assert_eq!(ran.action, super::rig::PASS, "an empty table ends every packet");
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn redirected_flows_take_no_other_packet_off_the_fast_path() {
    let mut rig = Rig::new();
    rig.write_view(View { flows: 1, ..FRESH });
    let mut is_judged = |change: fn(&mut Gate)| {
        // Without the bit of a suspect, its packets show whether they were judged all the same.
        let mut gate = Gate::EMPTY;
        change(&mut gate);
        rig.set("GATE", gate);
        rig.forget_counters();
        rig.run("epguard_to", &syn(REUSED));
        !rig.counters().is_empty()
    };
    assert!(!is_judged(|_| ()), "no flow goes there, and none comes from there");
    assert!(is_judged(|gate| gate.add(REUSED, Gate::FLOW)));
    assert!(is_judged(|gate| gate.add(Addr::v4(SRC_V4), Gate::FLOW)));
    assert!(is_judged(|gate| gate.valid = Gate::WRITTEN), "the flows are unknown");
}
