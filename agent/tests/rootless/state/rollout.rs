//! What stays denied while pods of the Service start: a rollout is when IPs are reused most. One
//! story each.

use super::*;

/// A backend of `shop/web` on X, of node-a, is dead; a pod of the Service starts on this node.
fn where_one_starts_on(node: &str) -> (World, Pod) {
    let (mut world, _) = World::where_a_died();
    let next = on(node, pending("shop", "next", "web"));
    world.pod(&next);
    (world, next)
}

#[test]
fn a_stranger_that_shows_the_ip_stays_denied_whichever_pods_of_the_service_start() {
    let (mut world, _) = where_one_starts_on("node-a");
    world.pod(&b()).denies(&[Reused]);
    world
        .pod(&pending("shop", "second", "web"))
        .denies(&[Reused]);
    world
        .pod(&pod("shop", "next", "web", &[X]))
        .denies_as("it shows the IP", &[]);
}

#[test]
fn a_stranger_that_may_have_another_ip_than_it_shows_proves_nothing_while_a_pod_of_the_service_starts()
 {
    let (mut world, next) = where_one_starts_on("node-a");
    world
        .pod(&Pod {
            sandbox: Sandbox::Unsettled,
            ..b()
        })
        .denies(&[]);
    world.deleted(&dead(&next)).denies(&[Reused]);
}

#[test]
fn a_stranger_is_not_denied_while_a_pod_starts_that_the_writer_of_the_slices_may_mean_next() {
    let (mut world, _) = World::cluster().with_a();
    world.tell(service(Service {
        selector: None,
        ..web()
    }));
    world.pod(&dead(&a())).pod(&b()).denies(&[Reused]);
    world.pod(&pending("shop", "next", "another")).denies(&[]);
}

#[test]
fn only_a_pod_on_the_node_that_hands_out_the_ip_may_have_been_given_it() {
    for end in [dead(&a()), terminal(&a())] {
        let (mut world, _) = World::cluster().with_a();
        let reason = if end.uid_state == UidState::Dead {
            DeadBackend
        } else {
            RetiredBackend
        };
        world.pod(&end).denies(&[reason]);
        world
            .pod(&on("node-b", pending("shop", "far", "web")))
            .denies_as("node-b may be another", &[]);
        world.answer().denies(&[reason]);
        world
            .pod(&pending("shop", "near", "web"))
            .denies_as("node-a hands the IP out", &[]);
        assert_eq!(world.state.take_node_check(world.now), None);
    }
}

#[test]
fn the_node_of_the_pod_must_be_seen_after_the_pod_was_bound_and_be_the_same() {
    let (mut world, _) = where_one_starts_on("node-b");
    let bound = world.now;
    let same = node("node-b", 2).uid;
    let seen = |name: &str, uid, at| {
        Fact::NodeSeen(NodeSeen {
            name: name.into(),
            uid,
            at,
        })
    };
    for (sentence, fact) in [
        (
            "not since",
            seen(
                "node-b",
                same,
                bound.saturating_sub(Duration::from_millis(1)),
            ),
        ),
        ("another Node", seen("node-a", node("node-a", 1).uid, bound)),
        ("another object", seen("node-b", uid("another"), bound)),
        ("it is gone", seen("node-b", Uid::NONE, bound)),
    ] {
        world.tell(fact).denies_as(sentence, &[]);
    }
    world
        .tell(seen("node-b", same, bound))
        .denies(&[DeadBackend]);
    world
        .pod(&on("node-b", pending("shop", "second", "web")))
        .denies_as("it was bound later", &[]);
    world.answer().denies(&[DeadBackend]);
}

#[test]
fn a_pod_on_a_node_that_is_not_known_may_have_been_given_any_ip() {
    let (mut world, _) = where_one_starts_on("node-x");
    world.answer().denies(&[]);
    let without_range = Node {
        pod_cidrs: vec![],
        ..node("node-x", 7)
    };
    world
        .tell(shown_node(without_range))
        .answer()
        .denies_as("it has no range yet", &[]);
    world
        .tell(shown_node(node("node-x", 7)))
        .answer()
        .denies(&[DeadBackend]);
}

#[test]
fn any_pod_may_have_been_given_the_ip_where_no_node_alone_hands_it_out() {
    let elsewhere = on(
        "node-b",
        pod("other", "stray", "stray", &[Addr::v4([10, 244, 1, 77])]),
    );
    let outside = pod("other", "stray", "stray", &[Addr::v4([10, 99, 0, 1])]);
    let replaced = Node {
        uid: uid("another"),
        ..node("node-a", 1)
    };
    let other_range = node("node-a", 3);
    let shares_it = node("node-c", 1);
    for (sentence, fact) in [
        (
            "a pod of another node has an IP of the range",
            shown(elsewhere),
        ),
        (
            "a pod of the node has an IP outside of the range",
            shown(outside),
        ),
        (
            "the Node is another one than the dead pod ran on",
            shown_node(replaced),
        ),
        (
            "the range is another node's by now",
            shown_node(other_range),
        ),
        ("two nodes have the range", shown_node(shares_it)),
        (
            "the Node is gone",
            Fact::Node(Change::Deleted(node("node-a", 1))),
        ),
    ] {
        let (mut world, _) = where_one_starts_on("node-b");
        world.answer().denies(&[DeadBackend]);
        world.tell(fact).denies_as(sentence, &[]);
    }
    let (mut world, _) = World::cluster().with_a();
    world.list(&[dead(&a())]);
    world.list(&[dead(&a())]);
    world.state.release_breaker(world.now, None);
    world.denies(&[DeadBackend]);
    world.pod(&on("node-b", pending("shop", "next", "web")));
    world
        .answer()
        .denies_as("the dead pod was seen alive on the Node", &[DeadBackend]);
}

#[test]
fn a_pod_on_a_node_that_hands_out_other_ips_than_those_of_its_ranges_may_have_been_given_any_ip() {
    let outside = on(
        "node-b",
        pod("other", "stray", "stray", &[Addr::v4([10, 99, 0, 1])]),
    );
    let six = Node {
        pod_cidrs: vec![Cidr::parse("fd00:2::/64").unwrap()],
        ..node("node-b", 2)
    };
    for (sentence, fact) in [
        ("a pod there has an IP outside of the range", shown(outside)),
        ("its ranges are of the other family", shown_node(six)),
    ] {
        let (mut world, _) = where_one_starts_on("node-b");
        world.answer().denies(&[DeadBackend]);
        world.tell(fact).answer().denies_as(sentence, &[]);
    }
}

#[test]
fn of_a_pod_that_was_first_seen_dead_the_node_object_is_not_known() {
    let mut world = World::cluster();
    world
        .pod(&dead(&a()))
        .slice(&[(X, Some(a().uid))])
        .denies(&[DeadBackend]);
    world.pod(&on("node-b", pending("shop", "next", "web")));
    world.answer().denies(&[]);
}

#[test]
fn a_pod_that_shows_one_family_may_hold_an_ip_of_the_other() {
    let six = Addr::from(std::net::IpAddr::V6("fd00::a".parse().unwrap()));
    let mut world = World::cluster();
    let a = Pod {
        ips: vec![X, six],
        ..a()
    };
    world.pod(&a).slice(&[(X, Some(a.uid)), (six, Some(a.uid))]);
    world.pod(&dead(&a)).denies(&[DeadBackend, DeadBackend]);
    world.pod(&pod("shop", "next", "web", &[Y]));
    assert_eq!(
        world
            .denials()
            .iter()
            .map(|denial| denial.ip)
            .collect::<Vec<_>>(),
        [X]
    );
    let other = Addr::from(std::net::IpAddr::V6("fd00::b".parse().unwrap()));
    world
        .pod(&pod("shop", "next", "web", &[Y, other]))
        .denies(&[DeadBackend, DeadBackend]);
}

#[test]
fn a_container_that_waits_for_another_reason_settles_the_ips_of_its_sandbox() {
    let stuck = |waits| Pod {
        waits,
        sandbox_since: std::num::NonZeroU32::new(7),
        sandbox: Sandbox::Unsettled,
        ..pod("shop", "stuck", "web", &[Y])
    };
    let mut world = World::cluster();
    world.list(&[stuck(1), a()]);
    world
        .slice(&[(X, Some(a().uid))])
        .pod(&dead(&a()))
        .denies_as("it may hold X", &[]);
    world.pod(&stuck(1)).denies(&[]);
    world
        .list(&[stuck(2), dead(&a())])
        .denies_as("a sandbox may have come and gone before a list", &[]);
    world.pod(&stuck(3)).denies(&[DeadBackend]);
    world
        .pod(&Pod {
            sandbox_since: std::num::NonZeroU32::new(9),
            ..stuck(1)
        })
        .denies_as("a new sandbox", &[]);
}
