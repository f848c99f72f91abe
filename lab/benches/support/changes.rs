//! Changes of objects at a rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A thread that changes objects.
pub(crate) struct Changes {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl Changes {
    /// Calls `change` with 0, 1, 2 and so on, this many times a second.
    pub(crate) fn start(per_second: u32, mut change: impl FnMut(u32) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let begun = Instant::now();
            let mut made = 0;
            while !stopped.load(Ordering::Relaxed) {
                let due = begun.elapsed().as_secs_f64() * f64::from(per_second);
                while f64::from(made) < due {
                    change(made);
                    made += 1;
                }
                thread::sleep(Duration::from_millis(1));
            }
            f64::from(made) / begun.elapsed().as_secs_f64()
        });
        Self { stop, thread }
    }

    /// Ends them, and returns how many came in a second.
    pub(crate) fn stop(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Another time of an object for each change of a day.
pub(crate) fn time(made: u32) -> String {
    let (hours, minutes, seconds) = (made / 3600 % 24, made / 60 % 60, made % 60);
    format!("2026-11-21T{hours:02}:{minutes:02}:{seconds:02}Z")
}
