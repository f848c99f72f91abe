//! Nodes of which it has to be shown that they are still those that are known, since a pod was
//! bound there: then they hand out IPs of their own ranges alone, so that the pod has none of
//! another's.
//!
//! A request shows one Node, for all Services that wait for it. Namespaces take turns, and the
//! requests are few: whoever starts many pods makes neither the API server nor another namespace
//! wait. All agents ask at the same time, so the more nodes, the fewer requests of each.

use super::breaker::request_spread;
use crate::bucket::Bucket;
use crate::counts::{Counts, uncount};
use crate::facts::{ObjectName, Text};
use epguard_common::Addr;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

/// One more request each, in a cluster of up to [`FEW`] nodes.
const INTERVAL: Duration = Duration::from_millis(200);

/// Requests at once after a pause, there.
const BURST: usize = 16;

/// So many agents ask at once.
const FEW: usize = 100;

/// A request without an answer is repeated after this time.
const PATIENCE: Duration = Duration::from_secs(5);

/// The Services that wait.
#[derive(Debug, Clone)]
pub struct NodeChecks {
    waiting: BTreeMap<ObjectName, Waiting>,
    /// Nodes whose request is under way, and since when.
    asked: BTreeMap<Text, Duration>,
    /// The Service whose turn it was last.
    last: ObjectName,
    bucket: Bucket,
}

/// What of a Service waits.
#[derive(Debug, Clone, Default)]
struct Waiting {
    /// Each IP with the Node that it waits for.
    ips: BTreeMap<Addr, Text>,
    /// How many of them wait for each Node: a Service can have tens of thousands of IPs.
    nodes: Counts<Text>,
}

impl Default for NodeChecks {
    fn default() -> Self {
        let bucket = Bucket::new(INTERVAL, 1);
        Self {
            waiting: BTreeMap::new(),
            asked: BTreeMap::new(),
            last: ObjectName::default(),
            bucket,
        }
    }
}

impl NodeChecks {
    /// Has a Service wait at an IP for a Node, or no more.
    pub fn set(&mut self, service: &ObjectName, ip: Addr, node: Option<Text>) {
        if let Some(node) = node {
            self.waiting
                .entry(service.clone())
                .or_default()
                .set(ip, node);
        } else if let Some(waiting) = self.waiting.get_mut(service) {
            waiting.remove(ip);
            if waiting.ips.is_empty() {
                self.waiting.remove(service);
            }
        }
    }

    /// The next Node to ask for, if a Service waits for one that is not asked for yet, and a
    /// request is allowed; and over which time the agents of so many nodes spread it.
    pub fn take(&mut self, now: Duration, nodes: usize) -> Option<(Text, Duration)> {
        let fold = nodes.div_ceil(FEW).max(1);
        self.bucket.set_pace(
            INTERVAL.saturating_mul(count(fold)),
            count((BURST / fold).max(1)),
        );
        // First: many may wait, and each turn of the loop asks.
        if !self.bucket.wait(now).is_zero() {
            return None;
        }
        let spread = if nodes > FEW {
            request_spread(nodes)
        } else {
            Duration::ZERO
        };
        self.asked
            .retain(|_, at| now.saturating_sub(*at) < PATIENCE + spread);
        let (service, node) = self.next()?;
        self.bucket.take(now);
        self.last = service;
        self.asked.insert(node.clone(), now);
        Some((node, spread))
    }

    /// The next Service, of the next namespace that waits for a Node that is not asked for, with
    /// this Node.
    fn next(&self) -> Option<(ObjectName, Text)> {
        let later = self.waiting.range((Excluded(&self.last), Unbounded));
        let other = later
            .clone()
            .filter(|(service, _)| service.namespace != self.last.namespace);
        let mut turns = other.chain(self.waiting.range(..=&self.last)).chain(later);
        turns.find_map(|(service, waiting)| {
            let node = waiting
                .nodes
                .keys()
                .find(|node| !self.asked.contains_key(*node))?;
            Some((service.clone(), node.clone()))
        })
    }

    /// Ends the request for a Node that was shown. Returns the Services that waited for it: they
    /// wait on until they are judged again.
    pub fn end_for(&mut self, node: &str) -> Vec<ObjectName> {
        self.asked.remove(node);
        let waiting = self
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.nodes.contains_key(node));
        waiting.map(|(service, _)| service.clone()).collect()
    }
}

impl Waiting {
    fn set(&mut self, ip: Addr, node: Text) {
        self.remove(ip);
        *self.nodes.entry(node.clone()).or_default() += 1;
        self.ips.insert(ip, node);
    }

    fn remove(&mut self, ip: Addr) {
        if let Some(node) = self.ips.remove(&ip) {
            uncount(&mut self.nodes, &node, 1);
        }
    }
}

fn count(count: usize) -> u32 {
    count.try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(namespace: &str, name: &str) -> ObjectName {
        ObjectName::new(namespace, name)
    }

    fn ip(last: u8) -> Addr {
        Addr::v4([10, 244, 1, last])
    }

    fn take(checks: &mut NodeChecks, second: u64) -> Option<Text> {
        checks
            .take(Duration::from_secs(second), FEW)
            .map(|(node, _)| node)
    }

    #[test]
    fn a_node_is_asked_for_once_for_all_that_wait_for_it_and_again_after_an_answer_or_without_one()
    {
        let mut checks = NodeChecks::default();
        checks.set(&name("shop", "web"), ip(1), Some("a".into()));
        checks.set(&name("shop", "api"), ip(1), Some("a".into()));
        assert_eq!(take(&mut checks, 1), Some("a".into()));
        assert_eq!(take(&mut checks, 2), None);
        assert_eq!(take(&mut checks, 6), Some("a".into()), "no answer");
        assert_eq!(
            checks.end_for("a"),
            [name("shop", "api"), name("shop", "web")]
        );
        assert_eq!(
            take(&mut checks, 7),
            Some("a".into()),
            "another pod was bound meanwhile"
        );
        checks.end_for("a");
        checks.set(&name("shop", "web"), ip(1), None);
        checks.set(&name("shop", "api"), ip(1), None);
        assert_eq!((take(&mut checks, 8), checks.end_for("a")), (None, vec![]));
    }

    #[test]
    fn a_service_waits_for_the_nodes_of_its_ips_and_is_named_once_however_many_ips_wait() {
        let (mut checks, web) = (NodeChecks::default(), name("shop", "web"));
        for number in 0..100 {
            checks.set(&web, ip(number), Some("a".into()));
        }
        assert_eq!(
            (checks.end_for("a"), checks.end_for("b")),
            (vec![web.clone()], vec![])
        );
        for number in 0..100 {
            checks.set(&web, ip(number), Some("b".into()));
        }
        assert_eq!(
            (checks.end_for("a"), checks.end_for("b")),
            (vec![], vec![web.clone()])
        );
        assert_eq!(checks.waiting[&web].nodes.len(), 1);
        for number in 0..100 {
            checks.set(&web, ip(number), None);
        }
        assert_eq!((checks.end_for("b"), checks.waiting.len()), (vec![], 0));
    }

    #[test]
    fn namespaces_take_turns_and_requests_are_few() {
        let mut checks = NodeChecks::default();
        for number in 0..100 {
            checks.set(
                &name("flood", &format!("web-{number:02}")),
                ip(number),
                Some(format!("a{number}").as_str().into()),
            );
        }
        checks.set(&name("shop", "web"), ip(1), Some("b".into()));
        let taken: Vec<Text> = std::iter::from_fn(|| take(&mut checks, 1)).collect();
        assert_eq!(taken.len(), BURST);
        assert!(taken[..2].contains(&"b".into()), "{taken:?}");
        assert_eq!(std::iter::from_fn(|| take(&mut checks, 2)).count(), 5);
    }

    #[test]
    fn the_more_agents_ask_the_fewer_requests_has_each_and_they_are_spread() {
        let mut checks = NodeChecks::default();
        for number in 0..100_u8 {
            let node = number.to_string().as_str().into();
            checks.set(&name("shop", &number.to_string()), ip(number), Some(node));
        }
        let mut at = |second, nodes| {
            checks
                .take(Duration::from_secs(second), nodes)
                .map(|(_, spread)| spread.as_secs())
        };
        assert_eq!(
            [at(1, 5_000), at(2, 5_000), at(10, 5_000), at(11, 5_000)],
            [Some(25), None, None, Some(25)]
        );
    }
}
