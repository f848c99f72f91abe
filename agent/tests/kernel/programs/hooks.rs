//! The hooks alone, on packets that no translator knows: both let everything pass.

use super::frames::{UDP, frame, of_type, packet, udp};
use super::rig::{Context, PASS, Rig};
use super::world::{DRAINING, INNOCENT, PORT, REUSED, REUSED_V6, syn};
use epguard_common::{Outcome, Reason};
use std::ops::Range;

const FROM: &str = "epguard_from";
const TO: &str = "epguard_to";

/// Offsets in `struct __sk_buff`.
const MARK: Range<usize> = 8..12;
const PRIORITY: Range<usize> = 32..36;
const CB: Range<usize> = 48..68;

/// What other programs keep in a packet.
fn foreign_context() -> Context {
    let mut context = [0; 192];
    context[MARK].fill(0xa5);
    context[PRIORITY].fill(0x5a);
    context[CB].fill(0xc3);
    context
}

fn theirs(context: Context) -> Vec<u8> {
    [&context[MARK], &context[PRIORITY], &context[CB]].concat()
}

fn frames() -> [Vec<u8>; 6] {
    [
        syn(REUSED),
        syn(REUSED_V6),
        frame(&packet(REUSED, UDP, &udp(PORT))),
        syn(DRAINING),
        syn(INNOCENT),
        of_type(&[], 0x0806, &[0; 28]),
    ]
}

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn both_hooks_pass_everything_change_no_field_and_only_the_egress_hook_counts() {
    let [v4, v6, datagram, draining, ..] = frames().map(|frame| frame.len() as u64);
    let counted = [
        ((Reason::Nothing, Outcome::NoConnection), (3, v4 + v6 + datagram)),
        ((Reason::Nothing, Outcome::Draining), (1, draining)),
    ];
    let mut rig = Rig::new();
    for (hook, counters) in [(FROM, [].into()), (TO, counted.into())] {
        for frame in frames() {
            let ran = rig.repeat(hook, &frame, foreign_context(), 1);
            assert_eq!((ran.action, ran.frame), (PASS, frame), "{hook}");
            assert_eq!(theirs(ran.context), theirs(foreign_context()), "{hook}");
        }
        assert_eq!(rig.counters(), counters, "{hook}");
        assert_eq!(rig.events(), [], "{hook}");
    }
}
