//! How long the agent takes from the receipt of a change until it is in the maps, by its own record.

use super::cluster::Cluster;
use epguard::shared::status::Distribution;
use std::time::Duration;

/// The agent's record at a moment.
pub(crate) struct Receipts(Distribution);

impl Receipts {
    pub(crate) fn now(cluster: &Cluster) -> Self {
        let status = cluster.agent.figures().unwrap();
        Self(status.figures.propagation)
    }

    /// The upper end, in milliseconds, of the bucket in which the quantile of the changes since then lies.
    pub(crate) fn quantile_since(&self, before: &Self, percent: u64) -> f64 {
        let counts = self.0.buckets.iter().zip(&before.0.buckets);
        let counts = counts.map(|((bound, after), (_, before))| (*bound, after - before));
        let all: u64 = self.0.count - before.0.count;
        let mut up_to = 0;
        let within = counts.into_iter().find(|(_, count)| {
            up_to += count;
            up_to * 100 >= all * percent
        });
        within.map_or(f64::INFINITY, |(bound, _)| {
            Duration::from_micros(bound).as_secs_f64() * 1e3
        })
    }
}
