//! The ground truth: which pods run, which sandbox holds which IP, and which IP a new sandbox gets.
//!
//! Nothing here knows of the API or of the agent.

use std::fmt;

/// An IP of IPv4, or its twin of IPv6 (`fd00::` with the same last four octets).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ip {
    pub last: [u8; 4],
    pub six: bool,
}

impl Ip {
    pub const fn four(last: [u8; 4]) -> Self {
        Self { last, six: false }
    }

    /// The same place in one family or the other.
    pub fn of(self, six: bool) -> Self {
        Self { six, ..self }
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let four = std::net::Ipv4Addr::from(self.last);
        let mut six = [0; 16];
        six[0] = 0xfd;
        six[12..].copy_from_slice(&self.last);
        let six = std::net::Ipv6Addr::from(six);
        if self.six { six.fmt(f) } else { four.fmt(f) }
    }
}

/// Families of a node's pods: whether they have one.
pub const FAMILIES: [&[bool]; 3] = [&[false], &[true], &[false, true]];

/// Which IPs a node's sandboxes get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ipam {
    /// Each node hands out its own `spec.podCIDRs`.
    Node,
    /// One pool; nodes have no range.
    Cluster,
    /// One pool, though nodes have ranges (Calico). A pod of the other node shows it from the
    /// start.
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
    /// A virtual kubelet: what its statuses say proves nothing.
    Virtual,
}

#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts, not a state machine"
)]
pub struct Pod {
    pub uid: String,
    pub namespace: &'static str,
    pub name: String,
    pub app: &'static str,
    pub node: usize,
    /// The place of the sandbox that is up: it has the IPs of its families there.
    pub sandbox: Option<Ip>,
    pub families: &'static [bool],
    /// Its IP in a second network.
    pub attached: Option<Ip>,
    /// It has the host port 80 on all addresses of its node.
    pub host_port: bool,
    /// Second in which the sandbox came up, or went.
    pub since: u64,
    /// It runs, or may start.
    pub wanted: bool,
    /// Its containers have ended for good.
    pub over: bool,
    /// A restored API server has made its kubelet start it again.
    pub revived: bool,
}

impl Pod {
    /// Whether its host port is translated on this node.
    pub fn has_host_port_on(&self, node: usize) -> bool {
        self.host_port && self.node == node && self.sandbox.is_some()
    }

    pub fn holds(&self, ip: Ip) -> bool {
        let Some(own) = self.sandbox else {
            return false;
        };
        let is_own = self.families.contains(&ip.six) && own.of(ip.six) == ip;
        is_own || self.attached == Some(ip)
    }
}

/// All nodes, and all pods there ever were, dead ones included.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub ipam: Ipam,
    pub kubelets: [Kubelet; 3],
    /// The node's kubelet reaches no API server.
    pub cut: [bool; 3],
    /// The number of the node's range; none while there is no such node.
    pub ranges: [Option<u8>; 3],
    /// By how many seconds the node's clock is wrong.
    pub clocks: [u64; 3],
    pub pods: Vec<Pod>,
}

/// The address of the agent's node.
pub const OWN_ADDRESS: Ip = Ip::four([192, 168, 250, 11]);

/// Where the second network is.
pub const SECOND: [Ip; 2] = [Ip::four([10, 250, 0, 10]), Ip::four([10, 250, 0, 11])];

impl Cluster {
    pub fn new(ipam: Ipam, kubelets: [Kubelet; 3]) -> Self {
        Self {
            ipam,
            kubelets,
            cut: [false; 3],
            ranges: [Some(1), Some(2), None],
            clocks: [0; 3],
            pods: Vec::new(),
        }
    }

    pub fn holder(&self, ip: Ip) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.holds(ip))
    }

    /// The places in a range that sandboxes may get.
    pub fn range(number: u8) -> [Ip; 2] {
        [10, 11].map(|host| Ip::four([10, 244, number, host]))
    }

    /// What the IPAM may hand out on a node.
    fn pool(&self, node: usize) -> Vec<Ip> {
        match (self.ipam, self.ranges[node]) {
            (_, None) => Vec::new(),
            (Ipam::Node, Some(number)) => Self::range(number).to_vec(),
            (Ipam::Cluster | Ipam::ClusterDespiteRanges, _) => {
                let [first, second] = Self::range(1);
                vec![first, second, Self::range(2)[0]]
            }
        }
    }

    /// Sets a sandbox up; false if there is no free IP.
    pub fn sandbox_up(&mut self, index: usize, pick: usize, now: u64) -> bool {
        let is_free = |ip: &Ip| {
            let mut pods = self.pods.iter();
            !pods.any(|pod| {
                pod.sandbox.is_some() && [pod.sandbox, pod.attached].contains(&Some(*ip))
            })
        };
        let mut free = self.pool(self.pods[index].node);
        free.retain(is_free);
        let second = SECOND.into_iter().find(is_free);
        if free.is_empty() {
            return false;
        }
        let pod = &mut self.pods[index];
        (pod.sandbox, pod.since) = (Some(free[pick % free.len()]), now);
        pod.attached = pod.attached.and(second);
        true
    }

    /// Tears a sandbox down: its IPs are free from now on.
    pub fn sandbox_down(&mut self, index: usize, now: u64) {
        let pod = &mut self.pods[index];
        (pod.sandbox, pod.since) = (None, now);
    }

    /// The IPs that the routes of a node lead to, on a point-to-point CNI.
    pub fn routes(&self, node: usize) -> Vec<Ip> {
        let pods = self.pods.iter().filter(|pod| pod.node == node);
        let held = pods.filter_map(|pod| Some((pod.sandbox?, pod.families)));
        let mut ips: Vec<Ip> = held
            .flat_map(|(own, families)| families.iter().map(move |six| own.of(*six)))
            .collect();
        ips.sort_unstable();
        ips
    }
}
