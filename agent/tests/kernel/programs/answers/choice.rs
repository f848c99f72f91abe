//! Who is answered: what CONFIG and the denial say. `differential` counts which packets may be
//! answered at all.

use super::*;

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn each_reason_has_its_own_action_and_a_denial_may_override_it() {
    let mut rig = rejecting();
    let only_reused = ReasonActions {
        reused: Action::Reject,
        ..ENFORCE.actions
    };
    for (reason, own, answered) in [
        (Reason::Reused, Action::Unset, true),
        (Reason::Reused, Action::Drop, false),
        (Reason::Reused, Action::Reject, true),
        (Reason::DeadBackend, Action::Unset, false),
        (Reason::DeadBackend, Action::Drop, false),
        (Reason::DeadBackend, Action::Reject, true),
    ] {
        rig.configure(Config {
            actions: only_reused,
            ..ENFORCE
        });
        let denial = Denial {
            action: own,
            ..denial(reason, UidState::Dead)
        };
        rig.deny(&target(REUSED, TCP), denial);
        let action = rig.run(BOTH, &syn(REUSED)).action;
        let expected = if answered { ANSWERED } else { DROP };
        assert_eq!(action, expected, "{reason:?}, {own:?}");
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_packet_that_cannot_be_rewritten_is_dropped_and_counted() {
    let mut rig = rejecting();
    // To a process of the node, behind the tag.
    rig.came_in_at = 0;
    let options: &[(u8, &[u8])] = &[(60, &[0, 1, 4, 0, 0, 0, 0])];
    let behind_a_tag = tagged(
        &[0x8100],
        &v6_with(REUSED_V6, options, TCP, &tcp(PORT, SYN)),
    );
    rig.forget_counters();
    assert_eq!(rig.run(BOTH, &behind_a_tag).action, DROP);
    let failed = rig.counters()[&(Reason::Nothing, Outcome::AnswerFailed)];
    assert_eq!(failed, (1, 0));
    answer(&mut rig, "the next one", &syn(REUSED));
}
