//! The ground truth: which pods run, which sandbox holds which IP, and which IP a new sandbox gets.
//!
//! Nothing here knows of the API or of the agent.

use std::fmt;

/// A pod IP, of IPv4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ip(pub [u8; 4]);

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::net::Ipv4Addr::from(self.0).fmt(f)
    }
}

/// Which IPs a node's sandboxes get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ipam {
    /// Each node hands out its own `spec.podCIDRs`.
    Node,
    /// One pool; nodes have no range.
    Cluster,
    /// One pool, though nodes have ranges (Calico). A pod of the other node shows it from the start.
    ClusterDespiteRanges,
}

/// What a kubelet writes, and under which name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kubelet {
    /// 1.36: the terminal phase comes after the sandbox's end, with `PodReadyToStartContainers`.
    Current,
    /// Before 1.27: no such condition, and Failed while containers run.
    Old,
    /// k3s: all components of the binary write under its name.
    OneBinary,
}

/// A pod on its node.
#[derive(Clone, Debug)]
pub struct Pod {
    pub uid: String,
    pub namespace: &'static str,
    pub name: String,
    pub node: usize,
    /// The IP of the sandbox that is up.
    pub sandbox: Option<Ip>,
    /// Second in which the sandbox came up, or went.
    pub since: u64,
    /// It runs, or may start.
    pub wanted: bool,
    /// Its containers have ended for good.
    pub over: bool,
    /// A restored API server has made its kubelet start it again.
    pub revived: bool,
}

/// All pods there ever were, dead ones included.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub ipam: Ipam,
    pub kubelets: [Kubelet; 2],
    /// The node's kubelet reaches no API server.
    pub cut: [bool; 2],
    pub pods: Vec<Pod>,
}

impl Cluster {
    pub fn new(ipam: Ipam, kubelets: [Kubelet; 2]) -> Self {
        let cut = [false; 2];
        let pods = Vec::new();
        Self {
            ipam,
            kubelets,
            cut,
            pods,
        }
    }

    /// The pod whose sandbox holds the IP.
    pub fn holder(&self, ip: Ip) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.sandbox == Some(ip))
    }

    /// The IPs of a node's ranges that sandboxes may get.
    pub fn range(node: usize) -> [Ip; 2] {
        [10, 11].map(|host| Ip([10, 244, if node == 0 { 1 } else { 2 }, host]))
    }

    /// What the IPAM may hand out on a node.
    fn pool(&self, node: usize) -> Vec<Ip> {
        match self.ipam {
            Ipam::Node => Self::range(node).to_vec(),
            Ipam::Cluster | Ipam::ClusterDespiteRanges => {
                let [first, second] = Self::range(0);
                vec![first, second, Self::range(1)[0]]
            }
        }
    }

    /// Sets a sandbox up; false if there is no free IP.
    pub fn sandbox_up(&mut self, index: usize, pick: usize, now: u64) -> bool {
        let pool = self.pool(self.pods[index].node);
        let free: Vec<Ip> = pool.into_iter().filter(|ip| self.holder(*ip).is_none()).collect();
        if free.is_empty() {
            return false;
        }
        let pod = &mut self.pods[index];
        (pod.sandbox, pod.since) = (Some(free[pick % free.len()]), now);
        true
    }

    /// Tears a sandbox down: its IP is free from now on.
    pub fn sandbox_down(&mut self, index: usize, now: u64) {
        let pod = &mut self.pods[index];
        (pod.sandbox, pod.since) = (None, now);
    }

    /// The IPs that the routes of a node lead to, on a point-to-point CNI.
    pub fn routes(&self, node: usize) -> Vec<Ip> {
        let pods = self.pods.iter().filter(|pod| pod.node == node);
        let mut ips: Vec<Ip> = pods.filter_map(|pod| pod.sandbox).collect();
        ips.sort_unstable();
        ips
    }
}
