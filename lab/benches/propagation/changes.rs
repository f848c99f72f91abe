//! Changes of objects that have nothing to do with the node.

use super::objects;
use epguard_lab::api::Store;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const OBJECTS: u32 = 1_000;

/// A thread that changes pods of another node.
pub(crate) struct Changes {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl Changes {
    pub(crate) fn start(store: &Store, per_second: u32) -> Self {
        let (stop, store) = (Arc::new(AtomicBool::new(false)), store.clone());
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let begun = Instant::now();
            let mut made = 0;
            while !stopped.load(Ordering::Relaxed) {
                let due = begun.elapsed().as_secs_f64() * f64::from(per_second);
                while f64::from(made) < due {
                    store.apply(objects::other(made % OBJECTS, made)).unwrap();
                    made += 1;
                }
                thread::sleep(Duration::from_millis(1));
            }
            f64::from(made) / begun.elapsed().as_secs_f64()
        });
        // The first ones make the objects.
        thread::sleep(Duration::from_secs(2));
        Self { stop, thread }
    }

    /// Ends them, and returns how many came in a second.
    pub(crate) fn stop(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
