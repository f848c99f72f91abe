//! What a rejected packet becomes, octet for octet.

mod choice;
mod frames;
mod limits;
mod ways;

use super::*;
use nix::net::if_::if_nametoindex;

/// `TC_ACT_REDIRECT`: an answer is on its way.
pub const ANSWERED: i32 = 7;

const REJECT: ReasonActions = ReasonActions::all(Action::Reject);

const REJECTING: Config = Config {
    actions: REJECT,
    ..ENFORCE
};

/// The world, rejecting. Packets come in at the interface `client`, which is the client's, and
/// leave by `pod`.
fn rejecting() -> Rig {
    direct::node(&[
        "link set lo up",
        "link add client type veth peer name client-peer",
        "link add pod type veth peer name pod-peer",
        "link set client up",
        "link set client-peer up",
        "link set pod up",
        "link set pod-peer up",
        "route add 10.244.2.0/24 dev client",
        "route add 10.244.1.0/24 dev pod",
        "-6 route add fd00:2::/32 dev client",
        "-6 route add fd00:1::/32 dev pod",
    ]);
    let mut rig = Rig::new();
    rig.configure(REJECTING);
    rig.came_in_at = interface("client");
    rig.ifindex = interface("pod");
    for ifindex in [rig.came_in_at, rig.ifindex] {
        set_role(&mut rig, ifindex, Role::Pod, RawRole::TAKES_ANSWERS);
    }
    rig
}

fn interface(name: &str) -> u32 {
    if_nametoindex(name).unwrap()
}

fn set_role(rig: &mut Rig, ifindex: u32, role: Role, flags: u32) {
    rig.put_keyed(
        "INTERFACES",
        &ifindex,
        RawRole {
            number: role as u32 | flags,
        },
    );
}

/// The answer to a frame, which is counted as rejected.
#[track_caller]
fn answer(rig: &mut Rig, name: &str, request: &[u8]) -> Vec<u8> {
    rig.forget_counters();
    let ran = rig.run(BOTH, request);
    assert_eq!(ran.action, ANSWERED, "action: {name}, {:?}", rig.counters());
    let counted = [(
        (Reason::Reused, Outcome::Rejected),
        (1, request.len() as u64),
    )];
    assert_eq!(rig.counters(), counted.into(), "counters: {name}");
    ran.frame
}
