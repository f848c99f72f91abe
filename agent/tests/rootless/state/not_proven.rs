//! The first step of the proof that fails, with the pods that it is about.

use super::*;

/// Why Service `shop/web` is not denied at X; none if it is.
fn why(world: &World) -> Option<NotProven> {
    let view = report::view_ip(&world.state, X);
    let endpoint = &view.services[0].endpoints[0];
    if endpoint.denial.is_some() {
        return None;
    }
    endpoint.not_proven.clone()
}

fn target(why: NotStale, listed: bool) -> NotProven {
    NotProven::Target { why, listed }
}

#[test]
fn a_pod_that_is_not_proven_dead_is_named() {
    let unknown = |listed| target(NotStale::Unknown(uid("b").to_string()), listed);
    let deleting = shown(Pod {
        deleting: true,
        ..a()
    });
    let listed_b = sliced(&[(X, Some(uid("b")))]);
    for (sentence, facts, expected) in [
        (
            "the pod lives",
            vec![],
            target(NotStale::Live("shop/a".into()), true),
        ),
        (
            "it is terminating",
            vec![deleting],
            target(NotStale::Terminating("shop/a".into()), true),
        ),
        (
            "no pod is listed",
            vec![sliced(&[(X, None)])],
            target(NotStale::NoPod, true),
        ),
        (
            "an unknown one is",
            vec![gone(&a()), listed_b.clone()],
            unknown(true),
        ),
        (
            "an unknown one was",
            vec![gone(&a()), listed_b, sliced(&[])],
            unknown(false),
        ),
    ] {
        let (mut world, _) = World::cluster().with_a();
        world.tell_all(facts);
        assert_eq!(why(&world), Some(expected), "{sentence}");
    }
}

#[test]
fn what_forbids_the_denial_of_a_dead_pods_endpoint_is_named() {
    let is_dead = shown(dead(&a()));
    let web = |change: fn(&mut Service)| {
        let mut web = web();
        change(&mut web);
        service(web)
    };
    let no_vip = web(|web| (web.vips, web.ports) = (vec![], vec![]));
    let by_hand = web(|web| web.selector = None);
    let opted_out = shown(Pod {
        bound: Mode::Off,
        ..b()
    });
    let own = shown(pod("shop", "d", "web", &[X]));
    let at_once = list_of(&[terminal(&a()), b()]);
    for (sentence, facts, expected) in [
        ("no VIP", vec![is_dead.clone(), no_vip], NotProven::NoVip),
        (
            "another proxy serves it",
            vec![is_dead.clone(), web(|web| web.other_proxy = true)],
            NotProven::NoVip,
        ),
        (
            "opted out",
            vec![is_dead.clone(), web(|web| web.bound = Mode::Off)],
            NotProven::ServiceOptedOut,
        ),
        (
            "not listed by hand",
            vec![is_dead.clone(), by_hand, sliced(&[])],
            NotProven::NotListed,
        ),
        (
            "its owner opted out",
            vec![is_dead.clone(), opted_out],
            NotProven::OwnerOptedOut("other/b".into()),
        ),
        (
            "a pod of the Service",
            vec![is_dead, own],
            NotProven::OwnPod("shop/d".into()),
        ),
        (
            "not provably later",
            vec![at_once],
            NotProven::NotLater("other/b".into()),
        ),
    ] {
        let (mut world, _) = World::cluster().with_a();
        world.tell_all(facts);
        assert_eq!(why(&world), Some(expected), "{sentence}");
    }
}

#[test]
fn a_possible_holder_is_named_with_what_it_shows() {
    let six = Addr::from(std::net::IpAddr::V6("fd00::a".parse().unwrap()));
    let with_old_ip = Pod {
        ips: [Y].into(),
        ..pending("shop", "d", "web")
    };
    let unreadable = Pod {
        partial: true,
        ..pod("shop", "d", "web", &[Y])
    };
    let of_other_family = pod("shop", "d", "web", &[six]);
    for (holder, shows) in [
        (pending("shop", "d", "web"), HolderShows::Nothing),
        (with_old_ip, HolderShows::MaybeOfOldSandbox),
        (of_other_family, HolderShows::OtherFamily),
        (unreadable, HolderShows::Unreadable),
    ] {
        let (mut world, _) = World::cluster().with_a();
        world.tell_all(vec![shown(dead(&a())), shown(holder)]);
        let expected = NotProven::PossibleHolder("shop/d".into(), shows);
        assert_eq!(why(&world), Some(expected));
    }
}

#[test]
fn several_owners_a_nodes_address_and_a_missing_sync_are_named() {
    let (mut world, _) = World::where_a_died();
    assert_eq!(
        report::view_ip(&world.state, X).services[0].endpoints[0].not_proven,
        None
    );
    world.pod(&b()).pod(&pod("other", "c", "c", &[X]));
    let Some(NotProven::SeveralOwners(one, other)) = why(&world) else {
        panic!("{:?}", why(&world))
    };
    assert_eq!(
        [one, other].map(|name| name.starts_with("other/")),
        [true; 2]
    );
    world.slice(&[(NODE, None)]);
    let view = report::view_ip(&world.state, NODE);
    assert_eq!(
        view.services[0].endpoints[0].not_proven,
        Some(NotProven::NodeAddress)
    );
    world.state.start_over(world.now);
    world.slice(&[(X, None)]);
    assert_eq!(why(&world), Some(NotProven::NotSynced));
}

#[test]
fn a_pod_whose_end_proves_nothing_is_named_with_the_cause() {
    let (mut world, a) = World::cluster().with_a();
    for (change, exemption) in [
        (
            Pod {
                bound: Mode::Off,
                ..a.clone()
            },
            Exemption::OptedOut,
        ),
        (
            Pod {
                static_ip: true,
                ..a
            },
            Exemption::StaticIp,
        ),
    ] {
        world.pod(&dead(&change));
        let expected = target(NotStale::Exempt("shop/a".into(), exemption), true);
        assert_eq!(why(&world), Some(expected));
    }
}
