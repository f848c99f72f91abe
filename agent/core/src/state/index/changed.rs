//! What a write changed in the index. `affected` finds what has to be judged again because of it.

use super::endpoints::Target;
use super::pods::Record;
use super::vips::VipClaims;
use crate::facts::{Cidr, HostPort, ObjectName, Text};
use epguard_common::{Addr, Uid};
use std::collections::{BTreeMap, BTreeSet};

/// What one fact, one object of a list, or the passing of time changed in the index.
#[derive(Debug, Default)]
pub struct Changed {
    /// Pods.
    pub pods: Vec<ChangedPod>,
    /// Endpoints that slices list or no longer list, by Service.
    pub endpoints: BTreeMap<ObjectName, ChangedEndpoints>,
    /// Services whose selector may prove more or less than before.
    pub selectors: BTreeSet<ObjectName>,
    /// Claims of VIPs that came or went: other Services with the same VIP got or lost a rival.
    pub claims: VipClaims,
    /// Host ports of this node's pods that came or went.
    pub host_ports: Vec<HostPort>,
    /// Services that claim what another object gave up a while ago.
    pub heirs: BTreeSet<ObjectName>,
    /// Namespaces that allow something else than before.
    pub namespaces: BTreeSet<Text>,
    /// Nodes that came, went, changed, or are forgotten.
    pub nodes: BTreeSet<Text>,
    /// Those of them that are other objects, or have other ranges, than before.
    pub replaced_nodes: BTreeSet<Text>,
    /// Ranges of such Nodes, before and after.
    pub node_ranges: Vec<Cidr>,
    /// Nodes whose ranges count from now on, or no longer.
    pub counting_ranges: BTreeSet<Text>,
    /// Addresses that Nodes or this node's interfaces got or lost.
    pub addresses: BTreeSet<Addr>,
    /// Further IPs whose owner may be another one.
    pub owned_ips: BTreeSet<Addr>,
    /// True if a Node is in another zone than before.
    pub zones: bool,
    /// True if the VIPs of any Service may have changed.
    pub all_vips: bool,
    /// True if a list has levelled the order in which pods claimed IPs.
    pub levelled: bool,
}

/// A pod that changed.
#[derive(Debug)]
pub struct ChangedPod {
    /// Its UID.
    pub uid: Uid,
    /// Its record before; none of a new pod.
    pub before: Option<Record>,
}

/// The endpoints of one Service that changed.
#[derive(Debug, Default)]
pub struct ChangedEndpoints {
    /// Where they are, with the pods that are named there, or were until now; in no order, some
    /// more than once.
    pub places: Vec<(Addr, Target)>,
    /// A slice was left out, or no longer is: that concerns all denials.
    pub all: bool,
    /// The selector may prove more or less: a slice shows another writer or namespace, or no
    /// endpoint of another writer is left.
    pub doubts_selector: bool,
}

impl Changed {
    /// What changed of the endpoints of a Service.
    pub fn endpoints_of(&mut self, service: &ObjectName) -> &mut ChangedEndpoints {
        self.endpoints.entry(service.clone()).or_default()
    }
}

impl ChangedEndpoints {
    /// The pods that are named, or were, each with an IP.
    pub fn named(&self) -> BTreeSet<(Uid, Addr)> {
        let mut named = BTreeSet::new();
        for (ip, target) in &self.places {
            if let Some(uid) = target {
                named.insert((*uid, *ip));
            }
        }
        named
    }
}
