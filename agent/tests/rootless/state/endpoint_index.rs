//! The index of endpoints finds what a look at every slice finds.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const NUMBERS: u8 = 4;

/// A target that a Service lists.
type Listed = (ObjectName, Endpoint, Target);

/// Slices change and go, and all that they listed is forgotten after a while.
#[derive(Debug, Clone)]
enum Step {
    Applied(Slice),
    Deleted(Slice),
    Wait(Duration),
}

/// All slices, and when each target was listed last.
#[derive(Default)]
struct Naive {
    slices: BTreeMap<ObjectName, Slice>,
    last: BTreeMap<Listed, Duration>,
}

impl Naive {
    fn take(&mut self, now: Duration, step: &Step) {
        let before: Vec<Listed> = self.slices.values().flat_map(listed).collect();
        match step {
            Step::Applied(slice) => {
                self.slices.insert(slice.name.clone(), slice.clone());
            }
            Step::Deleted(slice) => {
                self.slices.remove(&slice.name);
            }
            Step::Wait(_) => {}
        }
        let current: BTreeSet<Listed> = self.slices.values().flat_map(listed).collect();
        self.last
            .extend(before.into_iter().map(|listed| (listed, now)));
        self.last
            .retain(|listed, last| now <= *last + MEMORY && !current.contains(listed));
        self.last
            .extend(current.into_iter().map(|listed| (listed, now)));
    }
}

fn listed(slice: &Slice) -> impl Iterator<Item = Listed> {
    slice.service.iter().flat_map(move |service| {
        slice.endpoints.iter().flat_map(move |shown| {
            slice.ports.iter().map(move |port| {
                let endpoint = Endpoint {
                    ip: shown.ip,
                    port: port.port,
                    protocol: port.protocol,
                };
                (service.clone(), endpoint, shown.target)
            })
        })
    })
}

fn ip(number: u8) -> Addr {
    Addr::v4([10, 0, 0, number])
}

fn pod(number: u8) -> Uid {
    uid(&format!("pod-{number}"))
}

fn any_endpoint() -> impl Strategy<Value = SliceEndpoint> {
    let parts = (0..NUMBERS, prop::option::of(0..NUMBERS), any::<bool>());
    parts.prop_map(|(at, target, ready)| SliceEndpoint {
        ready,
        ..endpoint(ip(at), target.map(pod))
    })
}

fn any_slice() -> impl Strategy<Value = Slice> {
    let service = prop::option::weighted(0.9, 0..NUMBERS);
    let endpoints = prop::collection::vec(any_endpoint(), 0..8);
    (0..NUMBERS, service, endpoints, 1..3_u16).prop_map(|(name, service, endpoints, ports)| Slice {
        name: ObjectName::new("shop", name.to_string()),
        service: service.map(|number| ObjectName::new("shop", number.to_string())),
        endpoints,
        ports: (0..ports).map(|port| tcp("http", 8080 + port)).collect(),
        ..slice("web", &[])
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any_slice().prop_map(Step::Applied),
        2 => any_slice().prop_map(Step::Deleted),
        1 => (0..700_u64).prop_map(|seconds| Step::Wait(Duration::from_secs(seconds))),
    ]
}

proptest! {
    #![proptest_config(crate::incremental::config())]

    #[test]
    fn the_index_finds_what_a_look_at_every_slice_finds(steps in prop::collection::vec(any_step(), 1..40)) {
        let mut index = EndpointIndex::default();
        let mut naive = Naive::default();
        let mut now = Duration::from_secs(1000);
        for step in steps {
            naive.take(now, &step);
            match step {
                Step::Applied(slice) => drop(index.set(now, &slice.name.clone(), Some(slice))),
                Step::Deleted(slice) => drop(index.set(now, &slice.name, None)),
                Step::Wait(time) => {
                    now += time;
                    naive.take(now, &Step::Wait(time));
                    drop(index.expire(now));
                }
            }
            let all: BTreeSet<&Listed> = naive.last.keys().collect();
            for number in 0..NUMBERS {
                let service: ObjectName = ObjectName::new("shop", number.to_string());
                let found = index.endpoints_of(&service).flat_map(|(endpoint, targets)| {
                    targets.keys().map(|target| (service.clone(), *endpoint, target))
                });
                let found: Vec<Listed> = found.collect();
                let expected = all.iter().filter(|(own, ..)| *own == service);
                prop_assert_eq!(found, expected.map(|listed| (*listed).clone()).collect::<Vec<_>>());
                let services: Vec<&ObjectName> = index.services_at(ip(number)).collect();
                let expected: BTreeSet<&ObjectName> = all
                    .iter()
                    .filter(|(_, endpoint, _)| endpoint.ip == ip(number))
                    .map(|(service, ..)| service)
                    .collect();
                prop_assert_eq!(services, expected.into_iter().collect::<Vec<_>>());
                let own = all.iter().filter(|(.., target)| *target == Some(pod(number)));
                let places: BTreeSet<(&ObjectName, Addr)> =
                    own.map(|(service, endpoint, _)| (service, endpoint.ip)).collect();
                prop_assert_eq!(index.knows(pod(number)), !places.is_empty());
                prop_assert_eq!(index.of_pod(pod(number)).collect::<BTreeSet<_>>(), places);
            }
        }
    }
}
