//! Slices and Services without room, and VIPs that two Services claim: nothing is denied of such Services.

use super::EndpointIndex;
use super::left_out::OF_ONE;
use super::touched::Touched;
use crate::facts::{Name, named};
use crate::state::State;
use crate::state::index::quota::RETRIED;
use epguard_common::Addr;
use std::collections::BTreeMap;
use std::time::Duration;

impl EndpointIndex {
    /// True if a slice of the Service was left out: it may list any pod.
    #[must_use]
    pub fn leaves_out(&self, service: &Name) -> bool {
        self.left_out.is_of(service)
    }

    /// True if a slice that was left out lists the IP.
    #[must_use]
    pub fn leaves_out_at(&self, ip: Addr) -> bool {
        self.left_out.lists(ip)
    }

    /// Takes in slices that were left out and have room by now. Looks at some of them each time.
    pub fn retry(&mut self, now: Duration) -> Touched {
        let mut touched = Touched::default();
        for name in self.left_out.take_turn(RETRIED) {
            let Some(slice) = self.slices.get(&name).cloned() else {
                continue;
            };
            let all = slice.endpoints.len() * slice.ports.len();
            if all <= OF_ONE && self.room.admits(&name.0, all) {
                touched.extend(self.show(now, *slice));
            }
        }
        touched
    }
}

impl State {
    /// How many `EndpointSlices` and Services there is no room for, by namespace.
    #[must_use]
    pub fn left_out(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        let slices = self.cluster.endpoint_index.left_out.slices(false);
        for (namespace, _) in slices.chain(self.cluster.vips.left_out()) {
            *counts.entry(namespace.to_string()).or_default() += 1;
        }
        counts
    }

    /// How many pods, `EndpointSlices` and Services were read only in part, so that packets that they may concern pass; the first
    /// ones with kind, namespace and name.
    #[must_use]
    pub fn partial(&self) -> (usize, Vec<String>) {
        const NAMED: usize = 3;
        let pods = self.cluster.pods.possible_holders().filter(|record| record.pod.partial);
        let pods = pods.map(|record| format!("Pod {}", named(&record.pod.name)));
        let slices = self.cluster.endpoint_index.left_out.slices(true);
        let slices = slices.map(|name| format!("EndpointSlice {}", named(name)));
        let services = self.cluster.services().filter(|(_, service)| service.partial);
        let services = services.map(|(name, _)| format!("Service {}", named(name)));
        let mut all = pods.chain(slices).chain(services);
        let first: Vec<String> = all.by_ref().take(NAMED).collect();
        (first.len() + all.count(), first)
    }

    /// Services with denials whose packets do not show the Service meant, because another Service claims one of their
    /// VIPs; with that other Service.
    #[must_use]
    pub fn rivals(&self) -> Vec<(String, String)> {
        let rivals = self.layout.rivals.iter();
        rivals.map(|(name, rival)| (named(name), named(rival))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{PortName, Protocol, Slice, SliceEndpoint, SlicePort};
    use crate::state::MEMORY;
    use crate::state::index::quota::Quota;

    fn slice(namespace: &str, name: &str, endpoints: u8) -> Slice {
        let endpoint = |last| SliceEndpoint {
            ip: Addr::v4([10, 0, 0, last]),
            target: None,
            target_name: None,
            ready: true,
        };
        Slice {
            name: (namespace.into(), name.into()),
            service: Some((namespace.into(), name.into())),
            endpoints: (1..=endpoints).map(endpoint).collect(),
            ports: vec![SlicePort { name: PortName::new("http"), port: 80, protocol: Protocol::Tcp }],
            partial: false,
            foreign: false,
            triggered: None,
        }
    }

    #[test]
    fn a_namespace_fills_at_most_half_of_the_index_and_gets_room_that_is_given_back() {
        let mut endpoint_index = EndpointIndex { room: Quota::of(8), ..EndpointIndex::default() };
        let mut now = Duration::from_secs(1);
        let mut list = |namespace, name, endpoints| {
            endpoint_index.show(now, slice(namespace, name, endpoints));
            endpoint_index.leaves_out(&(namespace.into(), name.into()))
        };
        assert!(list("flood", "a", 9));
        assert!(!list("flood", "a", 4));
        assert!(!list("flood", "a", 4), "what is listed already takes no more room");
        assert!(list("flood", "b", 1));
        assert!(!list("shop", "web", 2));
        endpoint_index.delete(now, &("flood".into(), "a".into()));
        endpoint_index.delete(now, &("shop".into(), "web".into()));
        assert!(endpoint_index.left_out.has(&("flood".into(), "b".into())));
        endpoint_index.retry(now);
        assert!(endpoint_index.left_out.has(&("flood".into(), "b".into())));
        now += MEMORY * 2;
        endpoint_index.expire(now);
        endpoint_index.retry(now);
        assert!(!endpoint_index.left_out.has(&("flood".into(), "b".into())));
    }
}
