//! What several benchmarks need.
#![allow(dead_code, reason = "each benchmark uses its own part")]

pub(crate) mod changes;
pub(crate) mod denied;

use nix::time::{ClockId, clock_gettime};
use std::str::FromStr;
use std::time::Duration;
use std::{env, fs};
use tokio::runtime::{Builder, Runtime};

/// The number in an environment variable, or this one.
pub(crate) fn number<T: FromStr>(name: &str, default: T) -> T {
    let set = env::var(name).ok().and_then(|text| text.parse().ok());
    set.unwrap_or(default)
}

/// For the API server. Its caller enters it.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().build().unwrap()
}

/// The sample below which this share of all lies.
pub(crate) fn percentile(samples: &[f64], percent: usize) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// Time that the calling thread has used of a processor. The kernel adds the packets that it handles for the thread, and leaves
/// out the time of other processes.
pub(crate) fn used() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

/// A line of `/proc/PROCESS/status`, in octets. None if there is no such process.
pub(crate) fn memory(process: &str, field: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kibibytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// A number in the query of a request.
pub(crate) fn parameter(query: &str, name: &str) -> Option<u32> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(own, _)| *own == name)?.1.parse().ok()
}
