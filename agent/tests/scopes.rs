//! What each scope of the Pod watch allows to be proven; anything else is simply not denied.

mod world;

use epguard::facts::{Change, Fact, Pod, PodSource, Service};
use epguard::state::Scope;
use epguard_common::Addr;
use epguard_common::Reason::{DeadBackend, RetiredBackend, Reused};
use world::{World, X, dead, pod, slice, terminal, web};

const REMOTE: Addr = Addr::v4([10, 244, 2, 10]);

fn own(world: &mut World, pod: Pod) {
    world.tell(Fact::Pod(PodSource::OwnNode, Change::Applied(pod)));
}

fn elsewhere(world: &mut World, pod: Pod) {
    world.tell(Fact::Pod(PodSource::Terminal, Change::Applied(pod)));
}

fn remote(name: &str) -> Pod {
    Pod {
        node: Some("node-b".into()),
        ..pod("shop", name, "web", &[REMOTE])
    }
}

#[test]
fn the_node_scope_proves_everything_about_its_own_range() {
    let mut world = World::new(Scope::Node);
    let a = pod("shop", "a", "web", &[X]);
    own(&mut world, a.clone());
    world.slice(&[(X, Some(a.uid))]);
    own(&mut world, terminal(&a));
    assert_eq!(world.reasons(), [RetiredBackend]);
    own(&mut world, dead(&a));
    assert_eq!(world.reasons(), [DeadBackend]);
    own(&mut world, pod("other", "b", "b", &[X]));
    assert_eq!(world.reasons(), [Reused]);
}

#[test]
fn the_node_scope_proves_nothing_about_an_ip_that_may_be_anywhere() {
    let mut world = World::new(Scope::Node);
    let a = pod("shop", "a", "web", &[REMOTE]);
    own(&mut world, a.clone());
    world.slice(&[(REMOTE, Some(a.uid))]);
    own(&mut world, dead(&a));
    assert_eq!(
        world.reasons(),
        [],
        "an IP of the other node's range on this node"
    );
}

#[test]
fn the_terminal_scope_proves_a_remote_death_in_the_remote_nodes_own_range() {
    let mut world = World::new(Scope::Terminal);
    let a = remote("a");
    world.slice(&[(REMOTE, Some(a.uid))]);
    elsewhere(&mut world, terminal(&a));
    assert_eq!(world.reasons(), [], "retired only");
    elsewhere(&mut world, dead(&a));
    assert_eq!(world.reasons(), [DeadBackend]);
    world.tell(Fact::Slice(Change::Applied(slice(
        "other",
        &[(REMOTE, Some(world::uid("b")))],
    ))));
    assert_eq!(
        world.reasons(),
        [],
        "a slice lists somebody else there, who may be alive"
    );
}

#[test]
fn leaving_the_terminal_watch_is_no_deletion() {
    let mut world = World::new(Scope::Terminal);
    world.tell(Fact::Service(Change::Applied(Service {
        selector: None,
        ..web()
    })));
    let a = remote("a");
    world.slice(&[(REMOTE, Some(a.uid))]);
    elsewhere(&mut world, terminal(&a));
    let left = Pod {
        deleting: true,
        ..terminal(&a)
    };
    world.tell(Fact::Pod(PodSource::Terminal, Change::Deleted(left)));
    assert_eq!(world.reasons(), []);
}

#[test]
fn the_terminal_watch_adds_nothing_to_a_pod_of_the_own_node() {
    let mut world = World::new(Scope::Terminal);
    let a = pod("shop", "a", "web", &[X]);
    own(&mut world, a.clone());
    world.slice(&[(X, Some(a.uid))]);
    own(&mut world, terminal(&a));
    elsewhere(&mut world, terminal(&a));
    world.tell(Fact::Pod(PodSource::Terminal, Change::Deleted(terminal(&a))));
    assert_eq!(world.reasons(), [RetiredBackend]);
}

#[test]
fn the_terminal_scope_waits_for_both_of_its_pod_watches() {
    let settings = epguard::state::Settings {
        scope: Scope::Terminal,
        node: "node-a".into(),
        ipam: epguard::state::Ipam::Auto,
        ranges: epguard::state::Ranges::default(),
    };
    let mut world = World {
        state: epguard::state::State::new(settings),
        now: std::time::Duration::ZERO,
    };
    world.tell(Fact::Node(Change::Reset(vec![])));
    world.tell(Fact::Namespace(Change::Reset(vec![])));
    world.tell(Fact::Service(Change::Reset(vec![])));
    world.tell(Fact::Slice(Change::Reset(vec![])));
    world.tell(Fact::Pod(PodSource::OwnNode, Change::Reset(vec![])));
    assert!(!world.state.is_synced());
    world.tell(Fact::Pod(PodSource::Terminal, Change::Reset(vec![])));
    assert!(world.state.is_synced());
}
