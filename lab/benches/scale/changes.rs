//! Changes of pods that nothing depends on: a condition of a pod changes its time.

use super::cluster::Cluster;
use super::objects::State;
use super::size::BIG;
use epguard_lab::api::Store;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Pods that change in turn. They are of many Services and nodes.
const PODS: u32 = 1_000;

/// A thread that changes pods.
pub(crate) struct Changes {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl Changes {
    pub(crate) fn start(cluster: &Cluster, per_second: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, store) = (Arc::clone(&stop), cluster.store().clone());
        // The last pods: others die in other rows.
        let last = (1..=PODS).map(|back| cluster.size.pods - back);
        let pods = last.filter(|number| *number >= BIG);
        let pods: Vec<Value> = pods
            .map(|pod| cluster.objects.pod(cluster.own(pod), State::Running))
            .collect();
        let thread = thread::spawn(move || run(&stopped, &store, pods, per_second));
        Self { stop, thread }
    }

    /// Ends them, and returns how many came in a second.
    pub(crate) fn stop(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn run(stopped: &AtomicBool, store: &Store, mut pods: Vec<Value>, per_second: u32) -> f64 {
    let begun = Instant::now();
    let mut made = 0_u32;
    while !stopped.load(Ordering::Relaxed) {
        let due = begun.elapsed().as_secs_f64() * f64::from(per_second);
        while f64::from(made) < due {
            let index = made as usize % pods.len();
            let pod = &mut pods[index];
            let time = format!(
                "2026-11-21T{:02}:{:02}:{:02}Z",
                made / 3600 % 24,
                made / 60 % 60,
                made % 60
            );
            pod["status"]["conditions"][2]["lastProbeTime"] = time.into();
            store.apply(pod.clone()).unwrap();
            made += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    f64::from(made) / begun.elapsed().as_secs_f64()
}
