//! How long the agent's loop lets others wait.
//!
//! The loop serves the lease, the kubelet's probes and netlink before all else, in this order, and each of them waits while it
//! handles anything else. So a probe's wait shows all three.

use epguard_lab::net::NetNs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const HEALTH: &str = "127.0.0.1:9468";
/// Between two probes: a wait is seen too short by this at most.
const PAUSE: Duration = Duration::from_millis(1);

/// A thread that asks for /healthz all the time.
pub(crate) struct Waits {
    stop: Arc<AtomicBool>,
    /// Nanoseconds.
    longest: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Waits {
    pub(crate) fn start(netns: &NetNs) -> Self {
        let (stop, longest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (netns, stopped, seen) = (netns.clone(), Arc::clone(&stop), Arc::clone(&longest));
        let thread = thread::spawn(move || {
            netns.enter().unwrap();
            go_first();
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let took = probe().map_or(Duration::MAX, |()| begun.elapsed());
                seen.fetch_max(took.as_nanos().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
                thread::sleep(PAUSE);
            }
        });
        Self { stop, longest, thread: Some(thread) }
    }

    /// The longest wait since the last call, in milliseconds; centuries if a probe failed.
    pub(crate) fn longest(&self) -> f64 {
        let longest = self.longest.swap(0, Ordering::Relaxed);
        Duration::from_nanos(longest).as_secs_f64() * 1e3
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// None without a good answer.
fn probe() -> Option<()> {
    let mut stream = TcpStream::connect(HEALTH).ok()?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.1 200").then_some(())
}

/// Has this thread run before all others that are ready, so that it measures the agent and not its own waits.
fn go_first() {
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter outlives the call, which changes this thread alone. Without the right to it nothing changes.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) };
}
