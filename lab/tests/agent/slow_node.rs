//! The agent renews its lease while the node's kernel answers slowly.

use super::view_age::{MAX_VIEW_AGE, deny, synced};
use std::thread::sleep;
use std::time::Duration;

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
