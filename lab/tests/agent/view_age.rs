//! The lease and the age of the view in the real agent's status while its API server misbehaves.
//! Times are scaled down: the view may be 3 s old instead of 30.

use super::world::{World, service};
use epguard::shared::status::Status;
use nix::libc;
use std::thread::sleep;
use std::time::{Duration, Instant};

const MAX_VIEW_AGE: Duration = Duration::from_secs(3);

/// An agent that is synced, and whose API server sends no bookmarks.
fn synced(name: &str) -> World {
    let mut world = World::new(name);
    world
        .server
        .faults(|faults| faults.bookmark_period = Some(Duration::MAX));
    world.gets_range("10.244.1.0/24");
    world.store.apply(service("web", "10.96.0.1")).unwrap();
    let seconds = MAX_VIEW_AGE.as_secs().to_string();
    world.start(&["--max-view-age", &seconds, "--lease", &seconds]);
    world.until("synced", |status| status.synced);
    world
}

/// A dead pod that a Service still lists.
fn deny(world: &mut World) {
    world.list_dead("a", "10.244.1.10", "web", "TCP");
    world.until("denying", |status| {
        !status.services.is_empty() && status.lease_ms > 0
    });
}

/// Waits for the lease's end, and asserts that until then it never exceeded the maximum age of the
/// view.
fn outlive(world: &mut World) -> Status {
    world.until("past the lease", |status| {
        let age = status.view_age_ms.unwrap();
        let lease = status.lease_ms;
        assert!(
            lease <= 0 || age + u64::try_from(lease).unwrap() <= 3001,
            "{status:?}"
        );
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
    assert_eq!(
        world.log().matches("lease lost").count(),
        1,
        "{}",
        world.log()
    );

    // So does an API that was away.
    world.server.faults(|faults| faults.outage = true);
    outlive(&mut world);
    world.server.faults(|faults| faults.outage = false);
    let status = world.until("back again", |status| status.lease_ms > 0);
    assert!(!status.services.is_empty(), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn without_a_denial_no_watch_is_checked_and_the_first_denial_checks_all_at_once() {
    let mut world = synced("idle");
    world.server.api.audit.clear();
    let status = world.until("old", |status| status.view_age_ms.unwrap() > 6000);
    assert!(world.server.api.audit.requests().is_empty());
    assert!(status.lease_ms < 0, "{status:?}");
    deny(&mut world);
    // Consistent lists, none of which may be answered from an earlier state.
    let mut requests = world.server.api.audit.requests();
    requests.retain(|request| request.verb == "list" && !request.query.contains("limit=500"));
    assert!(requests.len() >= 4, "{requests:?}");
    assert!(
        requests
            .iter()
            .all(|request| !request.query.contains("resourceVersion")),
        "{requests:?}"
    );
    assert!(!world.log().contains("lease lost"), "{}", world.log());
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
        let is_it = std::fs::read_to_string(thread.path().join("comm"))
            .unwrap()
            .trim()
            == name;
        is_it.then(|| thread.file_name().into_string().unwrap().parse().unwrap())
    });
    thread.unwrap_or_else(|| panic!("no thread of the agent is called {name}"))
}

/// Stops one thread of another process, as a system call that waits does.
fn stop_for(thread: i32, time: Duration) {
    let ptrace = |request| {
        // SAFETY: these requests take no pointers, and the thread is not of this process.
        let result = unsafe { libc::ptrace(request, thread, 0_usize, 0_usize) };
        assert_eq!(result, 0);
    };
    ptrace(libc::PTRACE_SEIZE);
    ptrace(libc::PTRACE_INTERRUPT);
    // SAFETY: without a place for the status, waitpid writes nothing.
    let waited = unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) };
    assert_eq!(waited, thread);
    sleep(time);
    ptrace(libc::PTRACE_DETACH);
}
