//! The objects of the beginning.

use super::objects::{Objects, Pod, State};
use super::size::{self, Size};
use epguard_lab::api::Store;

/// Services of Jobs, and the pods of each.
pub(crate) const JOBS: u32 = 5;
pub(crate) const JOB_PODS: u32 = 4;

/// Makes all objects of the beginning.
pub(crate) fn fill(store: &Store, objects: &Objects, size: Size) {
    let apply = |object| drop(store.apply(object).unwrap());
    size::namespaces().for_each(|name| store.ensure_namespace(&name).unwrap());
    (0..size.nodes).for_each(|node| apply(objects.node(node)));
    (0..size.pods).for_each(|number| {
        let service = size.service_of(number);
        apply(objects.pod(Pod { number, service }, State::Running));
    });
    for service in 0..size.services {
        apply(objects.service(service));
        for (index, pods) in size.slices_of(service).into_iter().enumerate() {
            let pods: Vec<_> = pods.into_iter().map(|pod| (pod, State::Running)).collect();
            apply(objects.slice(service, index, &pods));
        }
    }
    for round in 0..JOBS {
        let pods: Vec<Pod> = (0..JOB_PODS).map(|pod| job(size, round, pod)).collect();
        apply(objects.service(pods[0].service));
        for pod in &pods {
            apply(objects.pod(*pod, State::Running));
        }
        let listed: Vec<_> = pods.iter().map(|pod| (pod.number, State::Running)).collect();
        apply(objects.slice(pods[0].service, 0, &listed));
    }
}

/// A pod of a Service of Jobs. Their numbers follow those of the pods that a rolling update makes.
pub(crate) fn job(size: Size, round: u32, pod: u32) -> Pod {
    Pod { number: size.pods + size::BIG + round * JOB_PODS + pod, service: size.services + round }
}
