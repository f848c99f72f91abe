//! The load balancer's maps, with the layouts of `lab/neighbour/src/socket_lb/maps.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use crate::neighbour::maps::{EndpointKey, endpoint, insert, open, replace, retain};
use crate::proxy::{Frontend, Protocol, ServiceRule};

/// How long a client stays with its backend: the default of
/// `sessionAffinityConfig.clientIP.timeoutSeconds`.
const AFFINITY_SECONDS: u32 = 10_800;

/// An endpoint with the protocol in its padding.
type ServiceKey = EndpointKey;

/// The numbers that Services and backends have in the maps. None is given twice.
#[derive(Debug, Default)]
pub(super) struct Tables {
    services: BTreeMap<ServiceKey, u32>,
    backends: BTreeMap<(u32, EndpointKey), u32>,
    last: u32,
}

/// What the maps shall hold.
#[derive(Debug, Default)]
struct Wanted {
    services: BTreeMap<ServiceKey, [u32; 4]>,
    slots: BTreeMap<[u32; 2], u32>,
    backends: BTreeMap<u32, EndpointKey>,
    /// Cluster IPs by numbers of Services, both in network order.
    reversals4: BTreeMap<[u8; 2], [u8; 6]>,
    reversals6: BTreeMap<[u8; 2], [u8; 18]>,
}

impl Tables {
    /// Writes what these Services need and removes the rest. A Service is switched to new backends
    /// by one write, and old ones go after it: no call finds half of it.
    pub(super) fn write_services(&mut self, pins: &Path, rules: &[ServiceRule]) -> Result<()> {
        let wanted = self.wanted(rules);
        let mut backends = open::<u32, EndpointKey>(pins, "SOCKET_BACKENDS")?;
        let mut slots = open::<[u32; 2], u32>(pins, "SOCKET_SLOTS")?;
        let mut services = open::<ServiceKey, [u32; 4]>(pins, "SOCKET_SERVICES")?;
        replace(pins, "cilium_lb4_reverse_nat", &wanted.reversals4)?;
        replace(pins, "cilium_lb6_reverse_nat", &wanted.reversals6)?;
        insert(&mut backends, &wanted.backends)?;
        insert(&mut slots, &wanted.slots)?;
        insert(&mut services, &wanted.services)?;
        retain(&mut services, &wanted.services)?;
        retain(&mut slots, &wanted.slots)?;
        retain(&mut backends, &wanted.backends)
    }

    fn wanted(&mut self, rules: &[ServiceRule]) -> Wanted {
        let mut wanted = Wanted::default();
        for rule in rules {
            for frontend in &rule.frontends {
                let (Frontend::ClusterIp(vip), Protocol::Tcp | Protocol::Udp) =
                    (frontend, rule.protocol)
                else {
                    continue;
                };
                let mut key = endpoint(*vip);
                key[18] = rule.protocol.number();
                let service = self.service(key);
                let backends = rule
                    .backends
                    .iter()
                    .filter(|backend| backend.is_ipv4() == vip.is_ipv4());
                let mut count = 0;
                for backend in backends {
                    let backend = endpoint(*backend);
                    let number = self.backend(service, backend);
                    wanted.backends.insert(number, backend);
                    wanted.slots.insert([service, count], number);
                    count += 1;
                }
                let reversal = key_of(service);
                if vip.is_ipv4() {
                    wanted.reversals4.insert(reversal, tail(&key));
                } else {
                    wanted.reversals6.insert(reversal, tail(&key));
                }
                let affinity = if rule.affinity { AFFINITY_SECONDS } else { 0 };
                wanted.services.insert(key, [count, service, affinity, 0]);
            }
        }
        self.services
            .retain(|key, _| wanted.services.contains_key(key));
        let kept: BTreeSet<u32> = wanted.backends.keys().copied().collect();
        self.backends.retain(|_, number| kept.contains(number));
        wanted
    }

    fn service(&mut self, key: ServiceKey) -> u32 {
        let Self { services, last, .. } = self;
        *services.entry(key).or_insert_with(|| next(last))
    }

    fn backend(&mut self, service: u32, backend: EndpointKey) -> u32 {
        let Self { backends, last, .. } = self;
        *backends
            .entry((service, backend))
            .or_insert_with(|| next(last))
    }
}

/// A number as it is in Cilium's maps.
fn key_of(service: u32) -> [u8; 2] {
    let [.., high, low] = service.to_be_bytes();
    [high, low]
}

/// The last octets of address and port.
fn tail<const N: usize>(key: &ServiceKey) -> [u8; N] {
    let mut tail = [0; N];
    tail.copy_from_slice(&key[18 - N..18]);
    tail
}

fn next(last: &mut u32) -> u32 {
    *last += 1;
    *last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(backends: &[&str]) -> ServiceRule {
        ServiceRule {
            frontends: vec![Frontend::ClusterIp("10.96.0.10:80".parse().unwrap())],
            backends: backends
                .iter()
                .map(|backend| backend.parse().unwrap())
                .collect(),
            ..ServiceRule::default()
        }
    }

    #[test]
    fn a_backend_keeps_its_number_while_it_is_listed_and_gets_a_new_one_after_that() {
        let mut tables = Tables::default();
        let mut numbers = |backends: &[&str]| -> Vec<u32> {
            tables
                .wanted(&[rule(backends)])
                .backends
                .keys()
                .copied()
                .collect()
        };
        let first = numbers(&["10.244.1.3:80", "10.244.1.4:80"]);
        assert_eq!(numbers(&["10.244.1.4:80"]), first[1..]);
        let again = numbers(&["10.244.1.3:80", "10.244.1.4:80"]);
        assert!(
            again.contains(&first[1]) && !again.contains(&first[0]),
            "{again:?}"
        );
    }

    #[test]
    fn a_reversal_is_in_network_order() {
        let wanted = Tables::default().wanted(&[rule(&[])]);
        assert_eq!(
            wanted.reversals4,
            BTreeMap::from([([0, 1], [10, 96, 0, 10, 0, 80])])
        );
    }

    #[test]
    fn a_service_uses_the_backends_of_its_own_family() {
        let wanted = Tables::default().wanted(&[rule(&["10.244.1.3:80", "[fd00::1]:80"])]);
        assert_eq!(
            wanted.services.values().next().map(|service| service[0]),
            Some(1)
        );
    }
}
