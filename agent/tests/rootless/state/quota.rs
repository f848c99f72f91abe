//! One namespace with more denials than a map holds, beside another one with a single denial.

use super::*;

/// More than DENIED holds of one namespace.
const PORTS: u16 = 2_000;
const PODS: u8 = 24;
/// What is kept of one slice.
const PORTS_OF_A_SLICE: usize = 250;

/// `flood/web`: dead pods with so many ports that DENIED is too small. It sorts before `shop`.
fn flood(world: &mut World) {
    let namespaces = ["flood", "shop", "other"].map(|name| namespace(name, Mode::Enforce));
    world.tell(Fact::Namespace(Change::Reset(Vec::<Namespace>::from(namespaces))));
    world.tell(service(Service {
        uid: uid("flood"),
        name: ("flood".into(), "web".into()),
        vips: vec![Addr::v4([10, 96, 0, 2])],
        ..web()
    }));
    let pods: Vec<Pod> = (0..PODS)
        .map(|number| {
            let ip = Addr::v4([10, 244, 1, 100 + number]);
            pod("flood", &format!("flood-{number}"), "web", &[ip])
        })
        .collect();
    let ports: Vec<SlicePort> = (1..=PORTS).map(|port| tcp(&port.to_string(), port)).collect();
    for (number, ports) in ports.chunks(PORTS_OF_A_SLICE).enumerate() {
        world.tell(shown_slice(Slice {
            name: ("flood".into(), format!("web-{number}").into()),
            service: Some(("flood".into(), "web".into())),
            ports: ports.to_vec(),
            ..slice("web", &endpoints(&pods))
        }));
    }
    // The first half that dies is denied at once, and sorts last.
    for pod in pods.iter().rev() {
        world.pod(&dead(pod));
    }
}

/// How many entries of DENIED are about the flood, and whether X is denied.
fn denied(world: &World) -> (usize, bool) {
    let denied = world.state.tables().denied.keys();
    let (of_x, flooded): (Vec<DenialKey>, Vec<DenialKey>) = denied.partition(|target| target.addr == X);
    (flooded.len(), !of_x.is_empty())
}

#[test]
fn a_namespace_that_floods_denied_leaves_room_for_the_others() {
    let mut world = World::cluster();
    flood(&mut world);
    let denied_at_once = (world.carried_out().len(), world.held().len());
    let first_half = usize::from(PORTS) * usize::from(PODS) / 2;
    let rest = capacity::DENIED / 2 - first_half;
    assert_eq!(denied_at_once, (first_half, rest), "pending ones get room last");
    let (mut world, a) = world.with_a();
    world.pod(&dead(&a));
    assert_eq!(world.carried_out().iter().filter(|ip| **ip == X).count(), 1);
    world.state.release_breaker(world.now, None);
    assert_eq!(world.held(), []);
    let (flooded, meant) = denied(&world);
    assert!(meant, "the other namespace's denial found no room");
    assert!(flooded.abs_diff(capacity::DENIED / 2) <= 1, "{flooded}");
    let refused = usize::from(PORTS) * usize::from(PODS) - flooded;
    assert_eq!(world.state.tables().refused, [("flood".to_owned(), refused)].into());
}
