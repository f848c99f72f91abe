//! Two namespaces with more denials than a map holds, beside another one with a single denial.

use super::*;

/// As many as are kept of one namespace: DENIED does not hold those of two.
const PORTS: u16 = 2_000;
const PODS: u8 = 12;
/// What is kept of one slice.
const PORTS_OF_A_SLICE: usize = 250;

/// `web` of a namespace: dead pods with so many ports. It sorts before `shop`.
fn flood(world: &mut World, namespace: &str, number: u8) {
    world.tell(service(Service {
        uid: uid(namespace),
        name: ObjectName::new(namespace, "web"),
        vips: vec![Addr::v4([10, 96, 0, 2 + number])],
        ..web()
    }));
    let pods: Vec<Pod> = (0..PODS)
        .map(|pod_number| {
            let ip = Addr::v4([10, 244, 1, 100 + PODS * number + pod_number]);
            pod(
                namespace,
                &format!("{namespace}-{pod_number}"),
                "web",
                &[ip],
            )
        })
        .collect();
    let ports: Vec<SlicePort> = (1..=PORTS)
        .map(|port| tcp(&port.to_string(), port))
        .collect();
    for (number, ports) in ports.chunks(PORTS_OF_A_SLICE).enumerate() {
        world.tell(shown_slice(Slice {
            name: ObjectName::new(namespace, format!("web-{number}")),
            service: Some(ObjectName::new(namespace, "web")),
            ports: ports.to_vec(),
            ..slice("web", &endpoints(&pods))
        }));
    }
    // The first half that dies is denied at once, and sorts last.
    for pod in pods.iter().rev() {
        world.pod(&dead(pod));
    }
}

/// How many entries of DENIED are about the two, and whether X is denied.
fn denied(world: &World) -> (usize, bool) {
    let denied = world.state.tables().denied.keys();
    let (of_x, flooded): (Vec<DenialKey>, Vec<DenialKey>) =
        denied.partition(|target| target.addr == X);
    (flooded.len(), !of_x.is_empty())
}

#[test]
fn namespaces_that_flood_denied_leave_room_for_the_others() {
    let mut world = World::cluster();
    let namespaces =
        ["flood-a", "flood-b", "shop", "other"].map(|name| namespace(name, Mode::Enforce));
    world.tell(Fact::Namespace(Change::Reset(Vec::<Namespace>::from(
        namespaces,
    ))));
    flood(&mut world, "flood-a", 0);
    flood(&mut world, "flood-b", 1);
    let denied_at_once = (world.carried_out().len(), world.stopped().len());
    let of_one = usize::from(PORTS) * usize::from(PODS);
    // The second one has as many as are free then.
    let all = of_one + (capacity::DENIED - of_one) / 2;
    assert_eq!(
        denied_at_once,
        (of_one, all - of_one),
        "stopped ones get room last"
    );
    let (mut world, a) = world.with_a();
    world.pod(&dead(&a));
    assert_eq!(world.carried_out().iter().filter(|ip| **ip == X).count(), 1);
    world.state.release_breaker(world.now, None);
    assert_eq!(world.stopped(), []);
    let (flooded, meant) = denied(&world);
    assert!(meant, "the other namespace's denial found no room");
    assert!(flooded.abs_diff(all) <= 1, "{flooded}");
    assert_eq!(
        world.state.tables().refused,
        [("flood-b".to_owned(), 2 * of_one - flooded)].into()
    );
}
