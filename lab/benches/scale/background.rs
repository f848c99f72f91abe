//! Threads beside the measured agent: one changes objects at a rate, one measures how long the
//! agent's loop lets others wait.

use epguard_lab::net::NetNs;
use epguard_lab::process;
use epguard_lab::wait::Repeated;
use nix::libc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const HEALTH: &str = "127.0.0.1:9468";
/// Between two turns: a wait is seen too short by this at most.
const PAUSE: Duration = Duration::from_millis(1);

/// Changes objects until it is stopped.
pub(crate) struct Changes {
    made: Arc<AtomicU64>,
    begun: Instant,
    thread: Repeated,
}

impl Changes {
    /// Calls `change` with 0, 1, 2 and so on, this many times a second.
    pub(crate) fn start(per_second: u32, mut change: impl FnMut(u64) + Send + 'static) -> Self {
        let made = Arc::new(AtomicU64::new(0));
        let begun = Instant::now();
        let counted = Arc::clone(&made);
        let turn = move || {
            let due = begun.elapsed().as_millis() * u128::from(per_second) / 1_000;
            while u128::from(counted.load(Ordering::Relaxed)) < due {
                change(counted.fetch_add(1, Ordering::Relaxed));
            }
            thread::sleep(PAUSE);
        };
        Self {
            made,
            begun,
            thread: Repeated::start(|| turn),
        }
    }

    /// Ends them, and returns how many came in a second.
    pub(crate) fn stop(self) -> f64 {
        drop(self.thread);
        let made = u32::try_from(self.made.load(Ordering::Relaxed)).unwrap();
        f64::from(made) / self.begun.elapsed().as_secs_f64()
    }
}

/// Asks for /healthz all the time. The agent's loop serves the lease, the kubelet's probes and
/// netlink before all else, in this order, and each of them waits while it handles anything else.
/// So a probe's wait shows all three.
pub(crate) struct Waits {
    /// Nanoseconds.
    longest: Arc<AtomicU64>,
    _thread: Repeated,
}

impl Waits {
    pub(crate) fn start(netns: &NetNs) -> Self {
        let longest = Arc::new(AtomicU64::new(0));
        let netns = netns.clone();
        let seen = Arc::clone(&longest);
        let thread = Repeated::start(move || {
            netns.enter().unwrap();
            go_first();
            move || {
                let begun = Instant::now();
                let took = probe().map_or(Duration::MAX, |()| begun.elapsed());
                seen.fetch_max(
                    took.as_nanos().try_into().unwrap_or(u64::MAX),
                    Ordering::Relaxed,
                );
                thread::sleep(PAUSE);
            }
        });
        Self {
            longest,
            _thread: thread,
        }
    }

    /// The longest wait since the last call, in milliseconds; centuries if a probe failed.
    pub(crate) fn longest(&self) -> f64 {
        let longest = self.longest.swap(0, Ordering::Relaxed);
        Duration::from_nanos(longest).as_secs_f64() * 1e3
    }
}

/// None without a good answer.
fn probe() -> Option<()> {
    process::get(HEALTH, "/healthz")
        .ok()
        .filter(|(code, _)| *code == 200)
        .map(drop)
}

/// Has this thread run before all others that are ready, so that it measures the agent and not its
/// own waits.
fn go_first() {
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter outlives the call, which changes this thread alone. Without the right
    // to it nothing changes.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) };
}
