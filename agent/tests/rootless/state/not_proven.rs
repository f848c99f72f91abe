//! The first step of the proof that fails, with the pods that it is about.

use super::world::{NODE, World, X, dead, pending, pod, terminal, uid, web};
use epguard_common::Mode;
use epguard_core::facts::{Change, Fact, Pod, Service};
use epguard_core::state::{Exemption, NotProven, NotStale};

/// Why Service `shop/web` is not denied at X.
fn why(world: &World) -> NotProven {
    let view = world.state.report().view(X);
    let endpoint = &view.services[0].endpoints[0];
    assert_eq!(endpoint.denial, None);
    endpoint.not_proven.clone().unwrap()
}

fn with_dead_a() -> (World, Pod) {
    let (world, a) = World::where_a_died();
    assert_eq!(world.state.report().view(X).services[0].endpoints[0].not_proven, None);
    (world, a)
}

fn named(name: &str) -> String {
    name.to_owned()
}

fn target(why: NotStale, listed: bool) -> NotProven {
    NotProven::Target { why, listed }
}

fn service(world: &mut World, change: impl FnOnce(Service) -> Service) {
    world.tell(Fact::Service(Change::Applied(change(web()))));
}

#[test]
fn a_slice_that_names_no_known_or_dead_pod_keeps_its_ip_from_being_denied() {
    let (mut world, a) = World::cluster().with_a();
    assert_eq!(why(&world), target(NotStale::Live(named("shop/a")), true));
    let deleting = Pod { deleting: true, ..a.clone() };
    world.pod(&deleting);
    assert_eq!(why(&world), target(NotStale::Terminating(named("shop/a")), true));
    world.slice(&[(X, None)]);
    assert_eq!(why(&world), target(NotStale::NoPod, true));
    let mut world = World::cluster();
    world.slice(&[(X, Some(uid("b")))]);
    let unknown = NotStale::Unknown(uid("b").to_string());
    assert_eq!(why(&world), target(unknown.clone(), true));
    world.slice(&[]);
    assert_eq!(why(&world), target(unknown, false));
}

#[test]
fn a_pod_whose_end_proves_nothing_is_named_with_the_cause() {
    let (mut world, a) = World::cluster().with_a();
    for (change, exemption) in [
        (Pod { bound: Mode::Off, ..a.clone() }, Exemption::OptedOut),
        (Pod { static_ip: true, ..a }, Exemption::StaticIp),
    ] {
        world.pod(&dead(&change));
        let expected = target(NotStale::Exempt(named("shop/a"), exemption), true);
        assert_eq!(why(&world), expected);
    }
}

#[test]
fn a_cause_for_all_ports_of_a_service_is_named() {
    let (mut world, _) = with_dead_a();
    service(&mut world, |web| Service { vips: vec![], ports: vec![], ..web });
    assert_eq!(why(&world), NotProven::NoVip);
    service(&mut world, |web| Service { other_proxy: true, ..web });
    assert_eq!(why(&world), NotProven::NoVip, "another proxy serves it");
    service(&mut world, |web| Service { bound: Mode::Off, ..web });
    assert_eq!(why(&world), NotProven::ServiceOptedOut);
    service(&mut world, |web| Service { selector: None, ..web });
    world.slice(&[]);
    assert_eq!(why(&world), NotProven::NotListed);
    world.slice(&[(NODE, None)]);
    let view = world.state.report().view(NODE);
    assert_eq!(view.services[0].endpoints[0].not_proven, Some(NotProven::NodeAddress));
    world.state.start_over(world.now);
    world.slice(&[(X, None)]);
    assert_eq!(why(&world), NotProven::NotSynced);
}

#[test]
fn owners_and_possible_holders_of_the_ip_are_named() {
    let (mut world, _) = with_dead_a();
    let b = pod("other", "b", "b", &[X]);
    world.pod(&Pod { bound: Mode::Off, ..b.clone() });
    assert_eq!(why(&world), NotProven::OwnerOptedOut(named("other/b")));
    world.pod(&b);
    world.pod(&pod("other", "c", "c", &[X]));
    let NotProven::SeveralOwners(one, other) = why(&world) else { panic!("{:?}", why(&world)) };
    assert_eq!([one, other].map(|name| name.starts_with("other/")), [true; 2]);

    let (mut world, _) = with_dead_a();
    world.pod(&pending("shop", "d", "web"));
    assert_eq!(why(&world), NotProven::PossibleHolder(named("shop/d")));
    world.pod(&pod("shop", "d", "web", &[X]));
    assert_eq!(why(&world), NotProven::OwnPod(named("shop/d")));
}

#[test]
fn a_pod_that_did_not_provably_get_the_ip_after_a_retired_one_is_named() {
    let (mut world, a) = World::cluster().with_a();
    world.list(&[terminal(&a), pod("other", "b", "b", &[X])]);
    assert_eq!(why(&world), NotProven::NotLater(named("other/b")));
}
