//! Facts that change more than the object they tell of. One story each; `incremental` searches for more.

mod world;

use epguard::facts::Pod;
use epguard_common::Addr;
use world::{World, X, Y};

fn suspects(world: &World) -> Vec<Addr> {
    world.state.tables().suspects.keys().copied().collect()
}

#[test]
fn a_draining_pod_that_moves_to_another_ip_is_counted_there() {
    let (mut world, a) = World::cluster().with_a();
    let draining = Pod { deleting: true, ..a };
    world.pod(&draining);
    assert_eq!(suspects(&world), [X]);
    world.pod(&Pod {
        ips: vec![Y],
        ..draining
    });
    assert_eq!(suspects(&world), [Y]);
}
