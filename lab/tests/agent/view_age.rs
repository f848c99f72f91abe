//! The lease and the age of the view in the real agent's status while its API server misbehaves. Times are scaled down:
//! the view may be 3 s old instead of 30.

use super::world::{World, service};
use epguard::shared::status::{Status, Watch};
use epguard_core::facts::Watched;
use epguard_core::freshness::Proof;
use epguard_lab::api::{Kind, Request};
use nix::libc;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub(crate) const MAX_VIEW_AGE: Duration = Duration::from_secs(3);
/// The default maximum age, which a busy machine does not exceed.
const LONG_VIEW_AGE: Duration = Duration::from_secs(30);

/// An agent that is synced, and whose API server sends no bookmarks.
pub(crate) fn synced(name: &str) -> World {
    synced_with(name, MAX_VIEW_AGE)
}

fn synced_with(name: &str, max_view_age: Duration) -> World {
    let mut world = World::new(name);
    world.server.faults(|faults| faults.bookmark_period = Some(Duration::MAX));
    world.gets_range("10.244.1.0/24");
    world.store.apply(service("web", "10.96.0.1")).unwrap();
    let seconds = max_view_age.as_secs().to_string();
    world.start(&["--max-view-age", &seconds, "--lease", &seconds]);
    world.until("synced", |status| status.synced);
    world
}

/// A dead pod that a Service still lists.
pub(crate) fn deny(world: &mut World) {
    world.list_dead("a", "10.244.1.10", "web", "TCP");
    world.until("denying", |status| denies(status) && status.lease_ms > 0);
}

fn denies(status: &Status) -> bool {
    !status.services.is_empty()
}

/// Confirmations that the API server has seen.
fn confirmations(world: &World) -> u32 {
    let requests = world.server.api.audit.requests();
    let confirmations = requests.iter().filter(|request| {
        assert!(!request.query.contains("resourceVersion"), "{request:?}");
        request.verb == "list" && !request.query.split('&').any(|pair| pair == "limit=500")
    });
    u32::try_from(confirmations.count()).unwrap()
}

/// Waits for the lease's end, and asserts that until then it never exceeded the maximum age of the view.
fn outlive(world: &mut World) -> Status {
    world.until("past the lease", |status| {
        let (age, lease) = (status.view_age_ms.unwrap(), status.lease_ms);
        assert!(lease <= 0 || age + u64::try_from(lease).unwrap() <= 3001, "{status:?}");
        lease < 0
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_stalled_api_ends_the_lease_when_the_view_is_too_old_and_a_healthy_one_brings_it_back() {
    let mut world = synced("stalled");
    deny(&mut world);
    let begun = Instant::now();
    world.server.faults(|faults| faults.hang = true);
    let status = outlive(&mut world);
    println!(
        "lease over {:?} after the API stalled, view {} ms old",
        begun.elapsed(),
        status.view_age_ms.unwrap()
    );
    assert!(status.view_age_ms.unwrap() >= 3000, "{status:?}");
    let silent = status.watches.values().filter(|watch| !watch.up);
    let errors: Vec<&str> = silent.filter_map(|watch| watch.error.as_deref()).collect();
    assert!(
        errors.contains(&"connected, but not proven fresh in time"),
        "a silent watch is not up: {status:?}"
    );
    world.await_log("lease lost");
    world.server.faults(|faults| faults.hang = false);
    world.until("back", |status| status.lease_ms > 0);
    world.await_log("lease back");
    assert_eq!(world.log().matches("lease lost").count(), 1, "{}", world.log());

    // So does an API that was away.
    world.server.faults(|faults| faults.outage = true);
    outlive(&mut world);
    world.server.faults(|faults| faults.outage = false);
    let status = world.until("back again", |status| status.lease_ms > 0);
    assert!(denies(&status), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn events_and_bookmarks_alone_renew_no_lease() {
    let mut world = synced("frozen");
    deny(&mut world);
    world.server.faults(|faults| {
        faults.failing = Some(500);
        faults.bookmark_period = Some(Duration::from_millis(100));
    });
    let store = world.store.clone();
    world.until("past the lease", |status| {
        store.advance();
        status.lease_ms < 0
    });
    let status = world.until("told of the refusal, and down", |status| {
        let is_down = |watch: &Watch| watch.error.is_some() && !watch.up;
        status.watches.values().all(is_down)
    });
    assert!(status.watches[&Watched::Pods].error.as_ref().unwrap().contains("500"));
    world.server.faults(|faults| faults.failing = None);
    let status = world.until("back", |status| status.lease_ms > 0);
    assert_eq!(status.watches[&Watched::Pods].proven_by, Some(Proof::Confirmation));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_large_collection_in_which_nothing_changes_is_confirmed_by_a_short_watch() {
    let mut world = synced("large");
    world.server.faults(|faults| faults.bookmark_period = None);
    for i in 0..60 {
        let idle = service(&format!("idle-{i}"), &format!("10.96.1.{i}"));
        world.store.apply(idle).unwrap();
    }
    world.until("old", |status| status.view_age_ms.unwrap() > 4000);
    world.server.api.audit.clear();
    deny(&mut world);
    let requests = world.server.api.audit.requests();
    let short = requests.iter().filter(|request| request.query.contains("timeoutSeconds=3"));
    let mut paths: Vec<&str> = short.map(|request| request.path.as_str()).collect();
    paths.dedup();
    assert_eq!(paths, ["/api/v1/services"], "{requests:?}");
    let key = |request: &&Request| request.query.contains("epguard-confirmation");
    let mut keys: Vec<&str> = requests.iter().filter(key).map(|request| request.path.as_str()).collect();
    keys.dedup();
    assert_eq!(keys, ["/api/v1/namespaces/default/services"], "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_quiet_cluster_keeps_its_denial_by_confirmations_alone() {
    let mut world = synced_with("quiet", LONG_VIEW_AGE);
    deny(&mut world);
    world.server.api.audit.clear();
    let begun = Instant::now();
    let mut oldest = 0;
    while begun.elapsed() < 2 * LONG_VIEW_AGE {
        let status = world.status();
        assert!(status.lease_ms > 0, "{status:?}\n{}", world.log());
        oldest = oldest.max(status.view_age_ms.unwrap());
        sleep(Duration::from_millis(20));
    }
    let (asked, seconds) = (confirmations(&world), begun.elapsed().as_secs_f64());
    let minutely = f64::from(asked) / seconds * 60.0;
    println!(
        "{asked} confirmations in {seconds:.1} s, that is {minutely:.1} a minute; the view was at most {oldest} ms old, \
         and may be 30000"
    );
    let requests = world.server.api.audit.requests();
    assert_eq!(usize::try_from(asked).unwrap(), requests.len(), "nothing else is asked");
    assert!(minutely <= 12.0 && minutely > 6.0, "{minutely}");
    let status = world.status();
    let by = |watched| status.watches[&watched].proven_by;
    assert_eq!(
        [Watched::Pods, Watched::EndpointSlices, Watched::Services, Watched::Nodes].map(by),
        [Some(Proof::Confirmation); 4]
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn without_a_denial_no_watch_is_confirmed_and_the_first_denial_confirms_at_once() {
    let mut world = synced("idle");
    world.server.api.audit.clear();
    let status = world.until("old", |status| status.view_age_ms.unwrap() > 6000);
    assert!(world.server.api.audit.requests().is_empty());
    assert!(status.lease_ms < 0, "{status:?}");
    deny(&mut world);
    assert!(confirmations(&world) >= 4, "{:?}", world.server.api.audit);
    assert!(!world.log().contains("lease lost"), "{}", world.log());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_watch_that_shows_less_than_the_lists_is_closed() {
    let mut world = synced("mute");
    deny(&mut world);
    world.server.faults(|faults| faults.mute = Kind::ALL.iter().copied().collect());
    let first: Value = json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "a", "namespace": "aaa"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
    world.store.apply(first).unwrap();
    let status = world.until("given up", |status| {
        status.watches[&Watched::Pods]
            .error
            .as_ref()
            .is_some_and(|error| error.contains("the watch has stopped at"))
    });
    assert!(!status.watches[&Watched::Pods].up && status.lease_ms < 0, "{status:?}");
    world.await_log("lacks changes that the API server has shown");
    world.until("past the lease", |status| status.lease_ms < 0);
    world.server.faults(|faults| faults.mute.clear());
    world.until("back", |status| status.lease_ms > 0 && status.watches[&Watched::Pods].up);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn while_the_kernel_leaves_netlink_unanswered_the_lease_is_renewed() {
    let mut world = synced("netlink");
    deny(&mut world);
    let node = thread_of(world.pid(), "node");
    let tracer = std::thread::spawn(move || stop_for(node, 3 * MAX_VIEW_AGE));
    while !tracer.is_finished() {
        assert!(world.status().lease_ms > 0, "{:?}", world.status());
        sleep(Duration::from_millis(50));
    }
    tracer.join().unwrap();
}

/// The number of a thread of a process.
fn thread_of(pid: u32, name: &str) -> i32 {
    let mut threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let thread = threads.find_map(|thread| {
        let thread = thread.unwrap();
        let is_it = std::fs::read_to_string(thread.path().join("comm")).unwrap().trim() == name;
        is_it.then(|| thread.file_name().into_string().unwrap().parse().unwrap())
    });
    thread.unwrap_or_else(|| panic!("no thread of the agent is called {name}"))
}

/// Stops one thread of another process, as a system call that waits does.
fn stop_for(thread: i32, time: Duration) {
    // SAFETY: these requests take no pointers, and the thread is not of this process.
    let ptrace = |request| assert_eq!(unsafe { libc::ptrace(request, thread, 0_usize, 0_usize) }, 0);
    ptrace(libc::PTRACE_SEIZE);
    ptrace(libc::PTRACE_INTERRUPT);
    // SAFETY: without a place for the status, waitpid writes nothing.
    let waited = unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) };
    assert_eq!(waited, thread);
    sleep(time);
    ptrace(libc::PTRACE_DETACH);
}
