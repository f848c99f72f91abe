//! Which denied packets are answered at all: an answer needs a way that no other program shares
//! with the endpoint.

use super::*;

/// What becomes of a packet to the pod, and how many packets were dropped as they could not be
/// answered.
fn outcome(rig: &mut Rig, request: &[u8]) -> (i32, u64) {
    rig.forget_counters();
    let action = rig.run(BOTH, request).action;
    let counters = rig.counters();
    let of = |reason, outcome| {
        counters
            .get(&(reason, outcome))
            .map_or(0, |(packets, _)| *packets)
    };
    let stopped = [Outcome::Rejected, Outcome::Dropped].map(|outcome| of(Reason::Reused, outcome));
    let expected = if action == ANSWERED { [1, 0] } else { [0, 1] };
    assert_eq!(stopped, expected, "{counters:?}");
    (action, of(Reason::Reused, Outcome::Unanswerable))
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_client_is_answered_where_the_node_routes_it_and_a_process_where_no_other_program_is() {
    const FREE: u32 = RawRole::TAKES_ANSWERS;
    let mut rig = rejecting();
    let client = rig.came_in_at;
    let pod = rig.ifindex;
    for (name, came_in_at, flags, answered) in [
        ("a client, beside other programs", client, 0, true),
        (
            "a client whose source another interface has",
            pod,
            FREE,
            false,
        ),
        ("a process", 0, FREE, true),
        ("a process, beside other programs", 0, 0, false),
    ] {
        rig.came_in_at = came_in_at;
        set_role(&mut rig, pod, Role::Pod, flags);
        for to in [REUSED, REUSED_V6] {
            let expected = if answered { (ANSWERED, 0) } else { (DROP, 1) };
            assert_eq!(outcome(&mut rig, &syn(to)), expected, "{name}, {to:?}");
        }
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_packet_that_leaves_for_elsewhere_than_its_destination_has_no_answer_from_there() {
    let mut rig = rejecting();
    // At a bridge's port: the node routes the pod to the bridge, here `client`.
    (rig.came_in_at, rig.ifindex) = (0, interface("client"));
    let bridge = interface("pod");
    for (name, flags, answered) in [
        ("another interface", RawRole::TAKES_ANSWERS, false),
        ("its bridge", RawRole::TAKES_ANSWERS | RawRole::BRIDGE, true),
        ("its bridge, beside other programs", RawRole::BRIDGE, false),
    ] {
        set_role(&mut rig, bridge, Role::Bridge, flags);
        let expected = if answered { (ANSWERED, 0) } else { (DROP, 1) };
        assert_eq!(outcome(&mut rig, &syn(REUSED)), expected, "{name}");
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn an_answer_to_a_client_leaves_without_the_tag_beside_the_frame_and_not_from_behind_one_in_it() {
    let mut rig = rejecting();
    assert_eq!(
        outcome(
            &mut rig,
            &tagged(&[0x8100], &packet(REUSED, TCP, &tcp(PORT, SYN)))
        ),
        (DROP, 1)
    );
    assert_eq!(outcome(&mut rig, &syn(REUSED)), (ANSWERED, 0));
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn an_answer_to_a_suspect_is_not_judged_on_its_way() {
    let mut rig = rejecting();
    for pod in [REUSED, REUSED_V6] {
        rig.put_keyed("SUSPECTS", &client(pod), suspect(Suspect::DENIED));
        rig.forget_counters();
        let request = syn(pod);
        // The second run meets the answer of the first one.
        let context = rig.context();
        assert_eq!(rig.repeat(BOTH, &request, context, 2).action, PASS);
        let counted = [(
            (Reason::Reused, Outcome::Rejected),
            (1, request.len() as u64),
        )];
        assert_eq!(rig.counters(), counted.into());
    }
}
