//! What a rejected packet becomes, octet for octet.

mod choice;
mod frames;
mod limits;

use super::*;

/// `TC_ACT_REDIRECT`: an answer is on its way.
pub const ANSWERED: i32 = 7;

const REJECT: ReasonActions = ReasonActions::all(Action::Reject);

const REJECTING: Config = Config { actions: REJECT, ..ENFORCE };

/// The world, rejecting.
fn rejecting() -> Rig {
    let mut rig = Rig::new();
    rig.configure(REJECTING);
    rig
}

/// The answer to a frame, which is counted as rejected.
#[track_caller]
fn answer(rig: &mut Rig, name: &str, request: &[u8]) -> Vec<u8> {
    rig.forget_counters();
    let ran = rig.run(BOTH, request);
    assert_eq!(ran.action, ANSWERED, "action: {name}, {:?}", rig.counters());
    let counted = [((Reason::Reused, Outcome::Rejected), (1, request.len() as u64))];
    assert_eq!(rig.counters(), counted.into(), "counters: {name}");
    ran.frame
}
