//! What metrics and readiness count as denied.

use super::world::{World, X, dead, pod};
use epguard_core::facts::{Fact, Presence};
use epguard_core::state::{IpState, State};

fn terminated(state: &State) -> u64 {
    state.report().counts().ips[&IpState::Terminated]
}

#[test]
fn an_ip_that_is_lifted_is_in_the_map_but_not_counted_as_denied() {
    let mut world = World::cluster();
    let a = pod("shop", "a", "web", &[X]);
    world.pod(&a);
    world.pod(&dead(&a));
    assert_eq!(terminated(&world.state), 1);
    world.tell(Fact::Presence(Presence::Spoke(X, world.now)));
    assert_eq!(terminated(&world.state), 0);
    assert_eq!(world.state.tables().terminated.len(), 1);
}
