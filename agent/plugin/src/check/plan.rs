//! Which nodes are checked, and which calls are made there. Pure.

use epguard_client::shared::calls::{CallProtocol, CallTarget};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use strum::{Display, IntoStaticStr};

/// How many nodes are checked unless the user chooses.
pub(super) const NODES: usize = 3;
/// The port of each Service and each server. Some network policies compare a Service's port, others
/// that of the pod: so both are the same.
pub(super) const PORT: u16 = 8080;

/// A node that may be checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Candidate {
    /// Name of the Node.
    pub name: String,
    /// What nodes of one pool have in common: OS image, kernel, versions of the CNI.
    pub pool: Vec<String>,
    /// Whether the Node is ready, and new pods may be scheduled there.
    pub takes_pods: bool,
}

/// One node of each pool, at most [`NODES`]; those that take pods, and the largest pools, first.
/// Sorted.
pub(super) fn one_of_each_pool(candidates: &[Candidate]) -> Vec<String> {
    let mut pools: BTreeMap<&[String], Vec<&Candidate>> = BTreeMap::new();
    for candidate in candidates {
        pools.entry(&candidate.pool).or_default().push(candidate);
    }
    let mut pools: Vec<Vec<&Candidate>> = pools.into_values().collect();
    for pool in &mut pools {
        pool.sort_by_key(|candidate| (!candidate.takes_pods, &candidate.name));
    }
    pools.sort_by_key(|pool| (!pool[0].takes_pods, usize::MAX - pool.len(), &pool[0].name));
    let mut chosen: Vec<String> = pools
        .iter()
        .take(NODES)
        .map(|pool| pool[0].name.clone())
        .collect();
    chosen.sort();
    chosen
}

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Display, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(super) enum Caller {
    /// A pod with a network of its own.
    Pod,
    /// A pod of the host network.
    Host,
}

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Display)]
pub(super) enum Family {
    #[serde(rename = "IPv4")]
    #[strum(serialize = "IPv4")]
    V4,
    #[serde(rename = "IPv6")]
    #[strum(serialize = "IPv6")]
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The first of these addresses that is of this family.
    pub fn of(self, ips: &[IpAddr]) -> Option<IpAddr> {
        let is_v4 = self == Self::V4;
        ips.iter().copied().find(|ip| ip.is_ipv4() == is_v4)
    }
}

/// What is called, and what has to become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Display)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Story {
    /// A Service whose only pod has finished, and is still listed: each call is counted.
    #[strum(serialize = "a finished pod")]
    Finished,
    /// A Service whose slice names the finished pod at the IP of a live pod of another namespace:
    /// each call is counted, and reaches that pod.
    #[strum(serialize = "a reused IP")]
    Reused,
    /// That live pod by a Service of its own: no call is counted, or lost.
    #[strum(serialize = "a live Service")]
    LiveService,
    /// That live pod by its IP: the same.
    #[strum(serialize = "a live pod")]
    LivePod,
}

impl Story {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 4] = [
        Self::Finished,
        Self::Reused,
        Self::LiveService,
        Self::LivePod,
    ];

    /// The column of its cells.
    pub const fn column(self) -> &'static str {
        match self {
            Self::Finished => "FINISHED",
            Self::Reused => "REUSED",
            Self::LiveService => "LIVE SERVICE",
            Self::LivePod => "LIVE POD",
        }
    }

    /// Whether calls have to be counted.
    pub const fn is_stale(self) -> bool {
        matches!(self, Self::Finished | Self::Reused)
    }
}

/// Calls from one place to one target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Cell {
    /// Name of the node that the caller is on.
    pub node: String,
    /// Who calls.
    pub caller: Caller,
    /// IPv4 or IPv6.
    pub family: Family,
    /// TCP or UDP.
    pub protocol: CallProtocol,
    /// What is called.
    pub story: Story,
}

/// The nodes and the callers of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Names of the nodes, sorted. A node's number is its place here, from 1.
    pub nodes: Vec<String>,
    /// Who calls from each.
    pub callers: Vec<Caller>,
}

impl Plan {
    /// Each node with its number.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.nodes.iter().map(String::as_str))
    }

    /// All calls, for the families that the cluster has.
    pub fn cells(&self, families: &BTreeSet<Family>) -> Vec<Cell> {
        let mut cells = Vec::new();
        for node in &self.nodes {
            for caller in &self.callers {
                for family in families {
                    for protocol in CallProtocol::ALL {
                        for story in Story::ALL {
                            cells.push(Cell {
                                node: node.clone(),
                                caller: *caller,
                                family: *family,
                                protocol,
                                story,
                            });
                        }
                    }
                }
            }
        }
        cells
    }
}

/// A target of a call.
pub(super) fn target(protocol: CallProtocol, ip: IpAddr) -> CallTarget {
    CallTarget {
        protocol,
        address: SocketAddr::new(ip, PORT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(all: &[(&str, &str, bool)]) -> Vec<Candidate> {
        let candidate = |(name, pool, takes_pods): &(&str, &str, bool)| Candidate {
            name: (*name).into(),
            pool: vec![(*pool).into()],
            takes_pods: *takes_pods,
        };
        all.iter().map(candidate).collect()
    }

    #[test]
    fn one_node_of_each_pool_is_checked_and_three_at_most() {
        for (all, chosen) in [
            (&[][..], &[][..]),
            (&[("b", "x", true), ("a", "x", true)], &["a"]),
            // A node that takes no pods only if its pool has no other.
            (&[("a", "x", false), ("b", "x", true)], &["b"]),
            (&[("a", "x", false)], &["a"]),
            // The largest pools.
            (
                &[
                    ("a", "w", true),
                    ("b", "x", true),
                    ("c", "y", true),
                    ("d", "z", true),
                    ("e", "z", true),
                ],
                &["a", "b", "d"],
            ),
            // Of a pool without any such node, only after all others.
            (
                &[
                    ("a", "w", false),
                    ("b", "x", true),
                    ("c", "y", true),
                    ("d", "z", true),
                ],
                &["b", "c", "d"],
            ),
        ] {
            assert_eq!(one_of_each_pool(&candidates(all)), chosen, "{all:?}");
        }
    }

    #[test]
    fn each_caller_of_each_node_makes_each_call() {
        let plan = Plan {
            nodes: vec!["a".into(), "b".into()],
            callers: vec![Caller::Pod, Caller::Host],
        };
        let cells = plan.cells(&Family::ALL.into());
        let distinct: BTreeSet<&Cell> = cells.iter().collect();
        assert_eq!((cells.len(), distinct.len()), (64, 64));
        assert_eq!(plan.cells(&[Family::V4].into()).len(), 32);
    }
}
