//! XDP answers where the device sends for it, as TC would have; the rest it leaves to TC.

use super::*;
use crate::programs::answers::ANSWERED;

const XDP_TX: u32 = 3;
/// Octets of the header that the kernel writes anew where TC's answer leaves.
const ETHERNET: usize = 14;

const REJECTING: Config = Config {
    actions: ReasonActions {
        terminated: Action::Reject,
        ..ENFORCE.actions
    },
    ..ENFORCE
};

/// The packets come in where the answers leave.
fn rejecting(sends: u8) -> Rig {
    let mut rig = rig();
    rig.came_in_at = if_nametoindex("uplink").unwrap();
    rig.configure(REJECTING);
    let mac = Mac {
        sends,
        ..Mac::default()
    };
    rig.put("MACS", &LOOPBACK, mac);
    rig.forget_counters();
    rig
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn a_rst_from_xdp_is_the_one_that_tc_would_send() {
    let mut rig = rejecting(1);
    for dst in [X, X6] {
        for (name, segment) in [
            ("SYN", tcp(PORT, SYN)),
            ("SYN with data", [tcp(PORT, SYN), vec![7; 9]].concat()),
            ("data", [tcp(PORT, ACK), vec![7; 1400]].concat()),
        ] {
            let frame = to(OWN, tagged(&[], &packet(dst, TCP, &segment)));
            let by_tc = rig.run(BOTH, &frame);
            assert_eq!(by_tc.action, ANSWERED, "{name}");
            rig.forget_counters();
            let (action, answer) = rig.turn_xdp(&frame);
            assert_eq!(action, XDP_TX, "{name}, {:?}", rig.counters());
            let (rst, filling) = answer.split_at(by_tc.frame.len());
            assert_eq!(rst[ETHERNET..], by_tc.frame[ETHERNET..], "{name}");
            assert_eq!(
                answer.len(),
                rst.len().max(frame.len().min(60)),
                "{name}: {filling:?}"
            );
            let counted = [(
                (Reason::Terminated, Outcome::Rejected),
                (1, frame.len() as u64),
            )];
            assert_eq!(rig.counters(), counted.into(), "{name}");
        }
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn packets_that_xdp_cannot_answer_are_left_to_tc_and_counted_there() {
    let options = v4_with(X, &[1; 4], 0x4000, TCP, &tcp(PORT, SYN));
    for (sends, ip) in [
        (0, packet(X, TCP, &tcp(PORT, SYN))),
        (1, packet(X, UDP, &udp(PORT))),
        (1, options),
    ] {
        let mut rig = rejecting(sends);
        let frame = to(OWN, tagged(&[], &ip));
        assert_eq!(rig.turn_xdp(&frame), (XDP_PASS, frame.clone()));
        assert_eq!(rig.counters(), [].into());
        assert_eq!(rig.run(BOTH, &frame).action, ANSWERED);
    }
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn xdp_answers_no_more_than_it_may() {
    let mut rig = rejecting(1);
    rig.configure(Config {
        limits: AnswerLimits {
            per_suspect: 1,
            per_node: 1000,
        },
        ..REJECTING
    });
    let frame = to(OWN, tagged(&[], &packet(X, TCP, &tcp(PORT, SYN))));
    assert_eq!([(); 2].map(|()| rig.run_xdp(&frame)), [XDP_TX, XDP_DROP]);
    let counters = rig.counters();
    let outcomes = [
        Outcome::Rejected,
        Outcome::Dropped,
        Outcome::AnswerSuppressed,
    ];
    assert_eq!(
        outcomes.map(|outcome| counters[&(Reason::Terminated, outcome)].0),
        [1, 1, 1]
    );
}
