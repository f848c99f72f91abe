//! Packets that were denied because no pod had the IP.

use super::*;

#[test]
fn a_packet_from_the_ip_proves_no_denial_wrong() {
    let (mut world, a) = World::where_a_died();
    denied(&mut world, Terminated, a.uid);
    for _ in 0..3 {
        world.now += Duration::from_secs(1);
        world.tell(Fact::Presence(Presence::Spoke(X, world.now)));
    }
    assert_eq!(findings(&mut world), []);
}

#[test]
fn every_pod_of_this_node_that_held_the_orphan_ip_was_denied_wrongly() {
    let (mut world, a) = World::where_a_died();
    world.pod(&pending("other", "b", "b"));
    denied(&mut world, Terminated, a.uid);
    let b = pod("other", "b", "b", &[X]);
    world.pod(&b);
    assert_eq!(
        findings(&mut world),
        [(Terminated, Contradiction::HeldUnpublished(b.uid))]
    );
}
