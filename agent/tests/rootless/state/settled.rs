//! Pods whose containers do not start, such as in `ImagePullBackOff`: for how long they may hold an
//! IP that they do not show.

use super::*;
use std::num::NonZeroU32;

const Z: Addr = Addr::v4([10, 244, 1, 12]);

/// A pod of `shop/web` on the same node, whose sandbox came up at second `since`.
fn stuck(since: u32, ips: &[Addr]) -> Pod {
    Pod {
        ips: ips.into(),
        sandbox: Sandbox::Unsettled,
        sandbox_since: NonZeroU32::new(since),
        ..pending("shop", "stuck", "web")
    }
}

/// A was behind the Service on X, and is dead; another pod of the Service is about to start.
fn world() -> World {
    let (mut world, _) = World::where_a_died();
    world.denies(&[DeadBackend]);
    assert!(world.is_orphan(X));
    world.pod(&pending("shop", "stuck", "web")).denies(&[]);
    assert!(!world.is_orphan(X));
    world
}

/// Shows the pod with a sandbox of these seconds and these IPs, one after the other: whether it
/// then may hold X.
#[track_caller]
fn story(rows: &[(&str, u32, &[Addr], bool)]) -> World {
    let mut world = world();
    for (sentence, since, ips, may_hold) in rows {
        let expected: &[_] = if *may_hold { &[] } else { &[DeadBackend] };
        world.pod(&stuck(*since, ips)).denies_as(sentence, expected);
        assert_eq!(world.is_orphan(X), !may_hold, "{sentence}");
    }
    world
}

#[test]
fn a_pod_that_showed_its_sandbox_before_its_first_ip_holds_no_other_ip() {
    let mut world = story(&[
        ("it may hold X", 7, &[], true),
        ("it shows another IP", 7, &[Y], false),
        ("the next try to pull changes nothing", 7, &[Y], false),
    ]);
    world.list(&[stuck(7, &[Y])]);
    assert!(report::possible_holders(&world.state, world.now + Duration::from_hours(1)).is_empty());
    story(&[
        ("it may hold X", 7, &[], true),
        ("it shows another IP", 7, &[Y], false),
        (
            "a new sandbox may have another IP than the reported one",
            9,
            &[Y],
            true,
        ),
        (
            "of two IPs, it is unknown which is the later sandbox's",
            9,
            &[Z],
            true,
        ),
    ]);
    story(&[
        ("it may hold X", 7, &[], true),
        ("it shows another IP", 7, &[Y], false),
        (
            "a second IP is of a sandbox that was not shown yet",
            7,
            &[Z],
            true,
        ),
    ]);
}

#[test]
fn a_pods_first_ip_or_one_from_a_list_may_belong_to_an_earlier_sandbox() {
    story(&[("no sandbox without an IP was shown", 7, &[Y], true)]);
    let mut world = story(&[("it may hold X", 7, &[], true)]);
    let a = dead(&pod("shop", "a", "web", &[X]));
    world
        .list(&[a, stuck(7, &[Y])])
        .denies_as("the watch had a gap", &[]);
    assert!(!world.is_orphan(X));
}

#[test]
fn the_order_in_which_the_watch_shows_sandbox_and_containers_counts_before_the_kubelets_clock() {
    use Sandbox::{FirstStarts, Published, Unsettled};
    type Status = (u32, u32, Sandbox);
    let stories: [(&str, &[Status], bool); 9] = [
        ("clock right", &[(7, 1, Published)], true),
        (
            "set back between sandbox and container",
            &[(7, 0, Unsettled), (7, 1, Unsettled)],
            true,
        ),
        ("the same, shown at once", &[(7, 1, FirstStarts)], true),
        (
            "a new sandbox, shown with all else of the one before",
            &[(7, 1, Published), (9, 1, FirstStarts), (9, 1, FirstStarts)],
            false,
        ),
        (
            "its container, after the clock was set back",
            &[(7, 1, Published), (9, 1, Unsettled), (9, 2, Unsettled)],
            true,
        ),
        (
            "set back before the new sandbox",
            &[(7, 1, Published), (5, 1, Published), (5, 1, Published)],
            false,
        ),
        (
            "its container, too",
            &[(7, 1, Published), (5, 1, Published), (5, 2, Published)],
            true,
        ),
        (
            "a restart and a new sandbox, shown at once",
            &[(7, 1, Published), (9, 2, Unsettled)],
            false,
        ),
        ("no sandbox", &[(7, 1, Published), (0, 1, Unsettled)], false),
    ];
    for (story, statuses, settled) in stories {
        let mut world = world();
        for (since, starts, sandbox) in statuses {
            let starts = *starts;
            let sandbox = *sandbox;
            world.pod(&Pod {
                starts,
                sandbox,
                ..stuck(*since, &[Y])
            });
        }
        let expected: &[_] = if settled { &[DeadBackend] } else { &[] };
        assert_eq!(world.reasons(), expected, "{story}");
    }
}

#[test]
fn a_list_does_not_show_whether_a_container_that_seems_older_than_its_sandbox_is() {
    for seen in [None, Some(7)] {
        let mut world = world();
        let shown = |since| Pod {
            starts: since,
            sandbox: if since == 7 {
                Sandbox::Published
            } else {
                Sandbox::FirstStarts
            },
            ..stuck(since, &[Y])
        };
        if let Some(since) = seen {
            world.pod(&shown(since)).denies(&[DeadBackend]);
        }
        world.list(&[dead(&pod("shop", "a", "web", &[X])), shown(9)]);
        assert_eq!(world.reasons(), [], "{seen:?}");
    }
}

#[test]
fn a_lasting_possible_holder_is_named_with_what_it_blocks() {
    let world = world();
    let soon = world.now + Duration::from_secs(30);
    assert!(report::possible_holders(&world.state, soon).is_empty());
    let later = world.now + Duration::from_secs(90);
    let holders = report::possible_holders(&world.state, later);
    let holder = &holders[0];
    assert_eq!(holders.len(), 1);
    assert_eq!(holder.pod, "shop/stuck");
    assert_eq!(
        (holder.since_ms / 1000, holder.blocks_terminated),
        (90, true)
    );
    assert_eq!(holder.blocks_services, ["shop/web"]);
}
