//! A rolling update of the largest Service.

use super::cluster::Cluster;
use super::objects::{Pod, State};
use super::size::SLICE;
use std::ops::Range;

/// Pods that are replaced before the driver waits for the agent. The API server keeps the last 20,000 changes of a kind.
const AT_ONCE: u32 = 250;

/// Replaces these pods of the first Service one by one, as kubelets and controllers do: the new pod is bound and runs, the slice
/// shows it and the old one as terminating; the old pod ends, the slice loses it, and it is removed. All pods before them were
/// replaced already. Returns when the agent has it all in its maps.
pub(crate) fn replace(cluster: &Cluster, pods: Range<u32>) {
    let slices = cluster.size.slices_of(0);
    for number in pods {
        let index = number as usize / SLICE;
        let (old, new) = (cluster.own(number), successor(cluster, number));
        cluster.pod(new, State::Pending);
        cluster.pod(new, State::Running);
        cluster.pod(old, State::Terminating);
        let show = |old_too: bool| {
            let listed = slices[index].iter().map(|pod| {
                let is_replaced = *pod < number;
                let shown = is_replaced.then(|| successor(cluster, *pod).number);
                (shown.unwrap_or(*pod), State::Running)
            });
            let others = listed.filter(|(pod, _)| *pod != number);
            let old = old_too.then_some((number, State::Terminating));
            let listed: Vec<_> = others.chain([(new.number, State::Running)]).chain(old).collect();
            let slice = cluster.objects.slice(0, index, &listed);
            cluster.store().apply(slice).unwrap();
        };
        show(true);
        cluster.pod(old, State::Ended);
        show(false);
        cluster.remove(old);
        if number % AT_ONCE == AT_ONCE - 1 {
            cluster.until_applied();
        }
    }
    cluster.until_applied();
}

/// The pod that replaces one: on the same node, with another IP.
fn successor(cluster: &Cluster, number: u32) -> Pod {
    Pod { number: cluster.size.pods + number, service: 0 }
}
