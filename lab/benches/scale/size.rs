//! A cluster's size, and where each of its pods is.

use std::net::Ipv4Addr;

/// Pods of the first Service, which is the one that is updated.
pub(crate) const BIG: u32 = 5_000;
/// Most endpoints in a slice, as in kube-controller-manager.
pub(crate) const SLICE: usize = 100;
/// Namespaces that Services are in.
pub(crate) const NAMESPACES: u32 = 200;

/// How many objects exist.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) name: &'static str,
    pub(crate) pods: u32,
    pub(crate) services: u32,
    pub(crate) nodes: u32,
}

pub(crate) const SMALL: Size = Size {
    name: "10,000 pods",
    pods: 10_000,
    services: 1_000,
    nodes: 100,
};

pub(crate) const LARGE: Size = Size {
    name: "100,000 pods",
    pods: 100_000,
    services: 10_000,
    nodes: 1_000,
};

impl Size {
    /// The Service of a pod of the beginning.
    pub(crate) fn service_of(self, pod: u32) -> u32 {
        match pod.checked_sub(BIG) {
            None => 0,
            Some(rest) => 1 + rest % (self.services - 1),
        }
    }

    /// The pods of a Service at the beginning.
    pub(crate) fn pods_of(self, service: u32) -> Vec<u32> {
        if service == 0 {
            return (0..BIG).collect();
        }
        let first = BIG + service - 1;
        (first..self.pods)
            .step_by((self.services - 1) as usize)
            .collect()
    }

    /// The pods of each slice of a Service. Small Services have two slices, so that there are twice
    /// as many slices.
    pub(crate) fn slices_of(self, service: u32) -> Vec<Vec<u32>> {
        let pods = self.pods_of(service);
        let most = SLICE.min(pods.len().div_ceil(2)).max(1);
        pods.chunks(most).map(<[u32]>::to_vec).collect()
    }

    /// The node of a pod. Node 0 is the agent's.
    pub(crate) fn node_of(self, pod: u32) -> u32 {
        pod % self.nodes
    }

    /// The IP of a pod, in its node's range.
    pub(crate) fn ip_of(self, pod: u32) -> Ipv4Addr {
        let [.., high, low] = self.node_of(pod).to_be_bytes();
        let [.., host] = (2 + pod / self.nodes).to_be_bytes();
        Ipv4Addr::new(10, high, low, host)
    }
}

pub(crate) fn node_name(node: u32) -> String {
    if node == 0 {
        // That of `World`.
        "n".to_owned()
    } else {
        format!("node-{node}")
    }
}

pub(crate) fn range(node: u32) -> String {
    let [.., high, low] = node.to_be_bytes();
    format!("10.{high}.{low}.0/24")
}

pub(crate) fn namespace(service: u32) -> String {
    format!("team-{}", service % NAMESPACES)
}

pub(crate) fn namespaces() -> impl Iterator<Item = String> {
    (0..NAMESPACES).map(namespace)
}

pub(crate) fn vip(service: u32) -> Ipv4Addr {
    let [.., high, low] = (service + 1).to_be_bytes();
    Ipv4Addr::new(172, 20, high, low)
}

/// The name of a Service, and the label `app` of its pods.
pub(crate) fn app(service: u32) -> String {
    format!("app-{service}")
}
