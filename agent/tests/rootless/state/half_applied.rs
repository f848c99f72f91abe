//! Lists that are applied in parts: between two parts, denials that a part concerns are not in
//! force, and all others stay.

use super::*;

impl World {
    /// Begins a list, and applies so many of its objects.
    fn begin(&mut self, list: Fact, objects: usize) {
        self.state.begin_fact(self.now, list);
        for _ in 0..objects {
            self.part();
        }
    }

    /// Applies one object of the list.
    fn part(&mut self) {
        self.state.run_step(self.now, 1);
        assert!(self.state.is_half_applied(), "the list is at its end");
    }

    fn end(&mut self) {
        while self.state.run_step(self.now, 1) {}
    }

    /// The modes of all denials in the map.
    fn modes(&self) -> Vec<Mode> {
        let denied = self.state.tables().denied.values();
        denied.map(|denial| denial.mode).collect()
    }
}

#[test]
fn an_annotation_that_allows_more_does_so_once_the_whole_list_is_applied() {
    let (mut world, a) = World::cluster().with_a();
    world.tell(service(Service {
        bound: Mode::Observe,
        ..web()
    }));
    world.pod(&dead(&a));
    assert_eq!(world.modes(), [Mode::Observe]);
    world.begin(Fact::Service(Change::Reset(vec![web()])), 1);
    assert_eq!(world.in_force(), []);
    world.end();
    assert_eq!(
        (world.in_force(), world.modes()),
        (vec![DeadBackend], vec![Mode::Enforce])
    );
}

#[test]
fn a_list_that_shows_what_is_known_changes_no_denial() {
    let (mut world, pods) = World::cluster().with_backends(4);
    world.pod(&dead(&pods[0]));
    let listed: Vec<Pod> = std::iter::once(dead(&pods[0]))
        .chain(pods[1..].iter().cloned())
        .collect();
    let before = world.state.tables().clone();
    world.begin(list_of(&listed), 0);
    while world.state.run_step(world.now, 1) {
        assert_eq!(*world.state.tables(), before);
    }
}

/// C, further down, shows that both may hold X.
#[test]
fn another_reason_is_in_force_once_the_whole_list_is_applied() {
    let (mut world, a) = World::where_a_died();
    let [b, c] = ["b", "c"].map(|name| pod("other", name, name, &[X]));
    assert_eq!(world.in_force(), [DeadBackend]);
    world.begin(list_of(&[dead(&a), b, c]), 2);
    assert_eq!(world.in_force(), []);
    world.part();
    world.end();
    assert_eq!(world.reasons(), []);
}

/// A list shows no order of claims, and neither does a part of it: B may have had X before A.
#[test]
fn a_claim_that_a_part_of_a_list_shows_first_is_no_newer_than_others() {
    let (mut world, a) = World::cluster().with_a();
    world.pod(&terminal(&a)).denies(&[RetiredBackend]);
    let b = pod("other", "b", "b", &[X]);
    let c = pod("other", "c", "c", &[Y]);
    world.begin(list_of(&[b, terminal(&a), c]), 2);
    assert_eq!(world.in_force(), []);
    world.end();
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_denial_that_rests_on_the_order_of_claims_ends_when_a_list_begins() {
    let (mut world, a) = World::cluster().with_a();
    let b = pod("other", "b", "b", &[X]);
    world.pod(&terminal(&a));
    world.pod(&b).denies(&[Reused]);
    world.begin(list_of(&[terminal(&a), b]), 0);
    assert!(world.state.is_half_applied());
    assert_eq!(world.in_force(), []);
}

/// Service api, further down, has the VIP, too: then the Service meant is unknown.
#[test]
fn a_denial_gains_vips_once_the_whole_list_of_services_is_applied() {
    let (mut world, _) = World::where_a_died();
    let before = world.state.tables().services.clone();
    let vips = [1, 2].map(|last| Addr::v4([10, 96, 0, last]));
    let more = Service {
        vips: vips.into(),
        ..web()
    };
    let api = Service {
        uid: uid("api"),
        name: ObjectName::new("shop", "api"),
        vips: vec![vips[1]],
        ports: vec![ServicePort {
            node_port: 0,
            ..web().ports[0]
        }],
        ..web()
    };
    for services in [vec![more.clone(), api], vec![more]] {
        assert_eq!(world.state.tables().services, before);
        world.begin(Fact::Service(Change::Reset(services)), 1);
        let services = &world.state.tables().services;
        assert!(services.keys().all(|vip| before.contains_key(vip)));
        world.end();
    }
    world.later(MEMORY);
    let mut services = world.state.tables().services.keys();
    assert!(services.any(|vip| vip.addr == vips[1]));
}

/// The slice further down still lists them.
#[test]
fn denials_of_more_than_half_stay_pending_while_slices_are_half_applied() {
    let (mut world, pods) = World::cluster().with_backends(4);
    for pod in &pods[..3] {
        world.pod(&dead(pod));
    }
    let stopped = world.stopped();
    assert!(!stopped.is_empty());
    let slices = vec![slice("web", &[]), slice("web-2", &endpoints(&pods))];
    world.begin(Fact::Slice(Change::Reset(slices)), 1);
    assert_eq!(world.stopped(), stopped);
    world.part();
    assert_eq!(world.stopped(), stopped);
}

/// Until everything is judged, the tables lack what the maps of the earlier process hold.
#[test]
fn a_new_process_is_synced_once_its_first_lists_are_judged() {
    let (mut earlier, a) = World::cluster().with_a();
    earlier.pod(&dead(&a));
    let tables = earlier.state.tables().clone();
    let mut world = World {
        state: State::new(settings()),
        now: earlier.now,
    };
    world.state.restore(tables.clone());
    world.tell(routes_to(&[]));
    world.list_all_but_pods();
    world.begin(list_of(&[dead(&a)]), 1);
    while !world.state.is_synced() {
        let goes_on = world.state.run_step(world.now, 1);
        assert!(goes_on || world.state.is_synced());
    }
    assert_eq!(world.state.tables().denied, tables.denied);
    assert_eq!(world.state.tables().services, tables.services);
}
