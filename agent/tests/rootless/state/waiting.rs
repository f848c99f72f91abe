//! Services that wait to be judged, a small piece at a time: what a fact may contradict is not in
//! force meanwhile, and neither a list nor another namespace makes it wait for longer than a piece.

use super::*;

const Z: Addr = Addr::v4([10, 244, 2, 99]);

impl World {
    /// From now on judges one endpoint at a time.
    fn in_pieces(&mut self) {
        self.state = std::mem::take(&mut self.state).with_piece(1);
    }

    /// Applies a fact without judging what it concerns.
    fn begin_only(&mut self, fact: Fact) {
        self.now += Duration::from_millis(10);
        self.state.begin_fact(self.now, fact);
    }

    /// The same for a list that was requested some time ago.
    fn begin_requested(&mut self, ago: Duration, list: Fact) {
        self.now += Duration::from_millis(10);
        self.state
            .begin_list(self.now.saturating_sub(ago), self.now, list);
    }

    fn judge_rest(&mut self) {
        while self.state.run_step(self.now, usize::MAX) {}
    }

    /// Applies the parts of all lists, and judges nothing.
    fn apply_lists(&mut self) {
        while self.state.is_half_applied() {
            self.state.run_step(self.now, usize::MAX);
        }
    }
}

#[test]
fn a_denial_that_a_fact_may_contradict_is_not_in_force_until_its_service_is_judged() {
    let (mut world, pods) = World::cluster().with_backends(8);
    world.pod(&dead(&pods[0])).denies(&[DeadBackend]);
    world.in_pieces();
    // A change of all of its endpoints, and the new holder of the dead one's IP.
    world.begin_only(sliced(&[]));
    world.begin_only(shown(Pod {
        ips: pods[0].ips.clone(),
        ..pod("shop", "new", "web", &[])
    }));
    let mut pieces = 0;
    loop {
        assert_eq!(world.in_force(), [], "after {pieces} pieces");
        pieces += 1;
        if !world.state.run_step(world.now, usize::MAX) {
            break;
        }
    }
    assert!(pieces > 1, "it was judged at once");
    assert_eq!(world.reasons(), []);
}

#[test]
fn a_denial_that_stays_proven_is_in_force_again_once_its_service_is_judged() {
    let (mut world, pods) = World::cluster().with_backends(8);
    world.pod(&dead(&pods[0]));
    world.in_pieces();
    world.begin_only(shown(Pod {
        labels: [("app", "api")].into_iter().collect(),
        ..pods[1].clone()
    }));
    assert_eq!(world.in_force(), []);
    world.judge_rest();
    assert_eq!(world.in_force(), [DeadBackend]);
}

/// A stranger of `third` has the dead pod's IP.
#[test]
fn a_change_of_a_namespace_suspends_only_what_it_may_bound() {
    let (mut world, _) = World::where_a_died();
    world
        .tell(shown_namespace("third", Mode::Enforce))
        .pod(&pod("third", "c", "c", &[X]));
    world.in_pieces();
    for (name, in_force) in [
        ("new", &[Reused][..]),
        ("shop", &[]),
        ("third", &[]),
        ("other", &[Reused]),
    ] {
        world.begin_only(shown_namespace(name, Mode::Observe));
        assert_eq!(world.in_force(), in_force, "{name}");
        world.judge_rest();
        assert_eq!(world.in_force(), [Reused], "{name}");
    }
}

/// Namespace `other` has 100 Services that list a pod whose state changes.
#[test]
fn a_service_waits_for_one_piece_however_many_services_of_another_namespace_wait() {
    let (mut world, a) = World::where_a_died();
    let crowded = pod("other", "crowd", "crowd", &[Z]);
    world.pod(&crowded);
    for number in 0..100 {
        let name = ObjectName::new("other", format!("crowd-{number}"));
        world.tell(service(Service {
            uid: uid(&format!("crowd-{number}")),
            name,
            vips: vec![],
            ..web()
        }));
        world.tell(shown_slice(Slice {
            name: ObjectName::new("other", format!("crowd-{number}")),
            service: Some(ObjectName::new("other", format!("crowd-{number}"))),
            ..slice("crowd", &endpoints(std::slice::from_ref(&crowded)))
        }));
    }
    world.in_pieces();
    world.begin_only(shown(dead(&crowded)));
    world.begin_only(sliced(&[(X, Some(a.uid)), (Y, None)]));
    let mut pieces = 0;
    while world.in_force() != [DeadBackend] {
        assert!(
            world.state.run_step(world.now, usize::MAX),
            "denied in the end"
        );
        pieces += 1;
    }
    assert!(
        pieces <= 6,
        "{pieces} pieces: two of its own, and one of the other namespace before each"
    );
}

#[test]
fn facts_and_lists_of_other_watches_are_applied_between_the_parts_of_a_list() {
    let (mut world, a) = World::where_a_died();
    let b = pod("shop", "b", "web", &[Y]);
    world.pod(&b);
    world.begin_only(list_of(&[dead(&a), b.clone()]));
    world.begin_only(Fact::Service(Change::Reset(vec![web()])));
    assert!(world.state.is_applying(Watched::Pods) && world.state.is_applying(Watched::Services));
    assert_eq!(world.in_force(), [DeadBackend]);
    // X is live by another watch.
    world.begin_only(sliced(&[(X, Some(b.uid))]));
    assert!(world.state.is_applying(Watched::Pods));
    assert_eq!(world.in_force(), []);
    world.judge_rest();
    assert_eq!(world.reasons(), []);
}

#[test]
fn what_a_list_of_everything_confirms_is_a_denial_that_began_before_it_was_requested() {
    for (ago, stopped) in [(Duration::from_secs(9), 4), (Duration::ZERO, 0)] {
        let (mut world, pods) = World::cluster().with_backends(4);
        let pods: Vec<Pod> = pods.iter().map(dead).collect();
        world.list(&pods).denies_and_stops(0, 4);
        world.later(Duration::from_secs(1));
        for list in [
            list_of(&pods),
            Fact::Slice(Change::Reset(vec![slice("web", &endpoints(&pods))])),
        ] {
            world.begin_requested(ago, list);
            world.judge_rest();
        }
        assert_eq!(world.stopped().len(), stopped, "requested {ago:?} ago");
    }
}

/// The breaker stops the denials of A and B: that is half. Both lists come before their Service is
/// judged.
#[test]
fn a_list_confirms_no_denial_of_a_service_that_a_later_fact_has_changed() {
    for changes in [true, false] {
        let (mut world, pods) = World::cluster().with_backends(4);
        for pod in &pods[..3] {
            world.pod(&dead(pod));
        }
        let stopped = world.stopped().len();
        assert!(stopped > 0);
        let listed: Vec<Pod> = pods[..3]
            .iter()
            .map(dead)
            .chain(pods[3..].iter().cloned())
            .collect();
        world.in_pieces();
        world.begin_only(list_of(&listed));
        world.begin_only(Fact::Slice(Change::Reset(vec![slice(
            "web",
            &endpoints(&pods),
        )])));
        world.apply_lists();
        if changes {
            world.begin_only(sliced(&endpoints(&pods[..3])));
        }
        world.judge_rest();
        assert_eq!(
            world.stopped().len(),
            if changes { stopped } else { 0 },
            "changes: {changes}"
        );
    }
}

#[test]
fn a_narrow_list_is_applied_in_parts_and_confirms_denials_at_its_end() {
    let (mut world, pods) = World::cluster().with_backends(4);
    let pods: Vec<Pod> = pods
        .iter()
        .enumerate()
        .map(|(n, pod)| if n < 3 { dead(pod) } else { pod.clone() })
        .collect();
    for pod in &pods[..3] {
        world.pod(pod);
    }
    world.denies_and_stops(2, 1);
    let labelled = Selection::Labelled {
        namespace: "shop".into(),
        selector: [("app", "web")].into_iter().collect(),
        node: None,
    };
    world.begin_only(Fact::Pod(Change::Part(part(labelled, pods.clone()))));
    let mut parts = 0;
    while world.state.is_applying(Watched::Pods) {
        world.denies_and_stops(2, 1);
        world.state.run_step(world.now, 1);
        parts += 1;
    }
    assert_eq!(parts, pods.len() + 1, "a pod each, and its end");
    let slices = Selection::slices_of(&web().name);
    world.begin_only(Fact::Slice(Change::Part(part(
        slices,
        vec![slice("web", &endpoints(&pods))],
    ))));
    assert!(world.state.is_applying(Watched::EndpointSlices));
    world.judge_rest();
    world.denies_and_stops(3, 0);
}

#[test]
fn a_narrow_list_that_is_half_applied_when_the_last_list_ends_does_not_keep_the_agent_from_being_synced()
 {
    let (mut world, a) = World::where_a_died();
    world.state.start_over(world.now);
    world.list_all_but_pods();
    let slices = Selection::slices_of(&web().name);
    world.begin_only(Fact::Slice(Change::Part(part(
        slices,
        vec![slice("web", &[(X, Some(a.uid))])],
    ))));
    world.begin_only(list_of(&[dead(&a)]));
    while world.state.is_applying(Watched::Pods) {
        world.state.run_step(world.now, 1);
    }
    assert!(world.state.is_applying(Watched::EndpointSlices));
    world.judge_rest();
    assert!(world.state.is_synced());
}

/// Eight dead backends; pods of the namespace that start are none of theirs.
#[test]
fn the_more_pods_start_the_fewer_ips_are_judged_at_once() {
    let pieces = |starting: usize| {
        let (mut world, pods) = World::cluster().with_backends(8);
        for pod in &pods {
            world.pod(&dead(pod));
        }
        for number in 0..starting {
            world.pod(&pending("shop", &format!("starts-{number}"), "another"));
        }
        world.state = std::mem::take(&mut world.state).with_piece(20);
        world.begin_only(service(Service {
            bound: Mode::Observe,
            ..web()
        }));
        let mut pieces = 1;
        while world.state.run_step(world.now, usize::MAX) {
            pieces += 1;
        }
        assert_eq!(world.reasons().len(), 8);
        pieces
    };
    assert_eq!([pieces(0), pieces(320)], [1, 8]);
}

/// Eight backends are dead, and a stranger shows the IP of each of these.
fn where_strangers_have(ips: std::ops::Range<usize>) -> World {
    let (mut world, pods) = World::cluster().with_backends(8);
    for (number, backend) in pods.iter().enumerate() {
        world.pod(&dead(backend));
        if ips.contains(&number) {
            let name = format!("stranger-{number}");
            world.pod(&Pod {
                ips: backend.ips.clone(),
                ..pod("other", &name, &name, &[])
            });
        }
    }
    world.in_pieces();
    world
}

#[test]
fn what_strangers_show_stays_in_force_however_often_pods_of_the_service_start() {
    let mut world = where_strangers_have(0..8);
    for number in 0..20 {
        world.begin_only(shown(pending("shop", &format!("starts-{number}"), "web")));
        assert_eq!(world.in_force(), [Reused; 8]);
        world.state.run_step(world.now, usize::MAX);
    }
}

/// A pod starts after each piece.
#[test]
fn a_service_is_suspended_until_its_endpoints_were_judged_once_however_often_its_pods_start() {
    let mut world = where_strangers_have(3..4);
    for number in 0..20 {
        world.begin_only(shown(pending("shop", &format!("starts-{number}"), "web")));
        assert_eq!(
            world.in_force().len(),
            usize::from(number > 7),
            "after {number} pieces"
        );
        world.state.run_step(world.now, usize::MAX);
    }
    assert_eq!(world.in_force(), [Reused]);
    world.begin_only(shown(pod("shop", "starts-0", "web", &[backend(3).ips[0]])));
    assert_eq!(world.in_force(), [], "one of them has the IP");
}
