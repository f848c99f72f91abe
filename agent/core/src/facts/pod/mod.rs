//! Pods: their identity, the IPs that they publish, and what their status proves.

mod death;
mod raw;

pub use death::Doubt;
pub use raw::{HostPort, Sandbox};

use super::labels::Labels;
use super::meta::{Ignored, Unreadable};
use super::object::Object;
use super::object_name::ObjectName;
use super::text::Text;
use epguard_common::{Addr, Mode, Uid, UidState};
use raw::RawPod;
use std::num::NonZeroU32;

/// A pod, as far as endpoints are concerned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts of the object, not a state machine"
)]
pub struct Pod {
    /// Identity of the pod; a later pod of the same name has another UID.
    pub uid: Uid,
    /// Namespace and name; empty where [`Pod::known_name`] has none.
    pub name: ObjectName,
    /// The node it is bound to.
    pub node: Option<Text>,
    /// For Service selectors.
    pub labels: Labels,
    /// Published pod IPs; for a hostNetwork pod the node's.
    pub ips: Vec<Addr>,
    /// Addresses of all its networks as annotations show them; the pod network's may be among them.
    pub network_ips: Box<[Addr]>,
    /// It shows more of them than are read, or an IP that cannot be read: it may hold any IP.
    pub partial: bool,
    /// Ports of its node's addresses that the CNI translates to it.
    pub host_ports: Box<[HostPort]>,
    /// Its IP outlives it by design.
    pub static_ip: bool,
    /// `spec.hostNetwork`: its IPs are the node's and are never judged.
    pub host_network: bool,
    /// A static pod's mirror (annotation `kubernetes.io/config.mirror`): its UID proves nothing
    /// about containers.
    pub mirror: bool,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// What its own status proves: retired if the phase is terminal, dead if the kubelet wrote that
    /// after it had torn down the sandbox's network.
    pub uid_state: UidState,
    /// Why it is not proven dead, though its containers have ended.
    pub doubt: Option<Box<Doubt>>,
    /// Whether `ips` are those of the sandbox that runs, as far as this object alone shows it.
    pub sandbox: Sandbox,
    /// When the current sandbox came up, by the kubelet's clock, in seconds since 1970.
    pub sandbox_since: Option<NonZeroU32>,
    /// A hash of the times at which its containers were started; 0 if none was.
    pub starts: u32,
    /// A hash of the reasons why its containers wait.
    pub waits: u32,
    /// Highest mode that its annotation `epguard.io/mode` allows.
    pub bound: Mode,
}

impl Pod {
    /// Its namespace and name. None for a pod that only an earlier process saw, and whose name that
    /// process did not keep.
    pub fn known_name(&self) -> Option<&ObjectName> {
        if self.name.name.is_empty() {
            None
        } else {
            Some(&self.name)
        }
    }

    /// Every address that it shows, on any network.
    pub fn addresses(&self) -> impl Iterator<Item = Addr> {
        let further = self.network_ips.iter().filter(|ip| !self.ips.contains(ip));
        self.ips.iter().chain(further).copied()
    }
}

impl Object for Pod {
    const KIND: &'static str = "Pod";
    const PATH: &'static str = "/api/v1/pods";

    type Raw<'a> = RawPod<'a>;

    fn from_named(raw: RawPod<'_>, ignored: &mut Ignored) -> Result<Self, Unreadable> {
        let uid = raw.metadata.uid()?;
        let mirror = raw
            .metadata
            .annotations
            .contains_key("kubernetes.io/config.mirror");
        let (uid_state, doubt) = raw.uid_state(mirror);
        let (network_ips, has_more) = raw.metadata.network_ips(ignored);
        Ok(Self {
            uid,
            name: raw.metadata.name(),
            ips: raw.status.ips(),
            uid_state,
            doubt: doubt.map(Box::new),
            sandbox: raw.status.sandbox(),
            sandbox_since: raw.status.sandbox_since(),
            starts: raw.status.hash_of_starts(),
            waits: raw.status.hash_of_waits(),
            host_network: raw.spec.host_network,
            mirror,
            deleting: raw.metadata.deletion_timestamp.is_some(),
            bound: raw.metadata.bound(ignored),
            network_ips: network_ips.into(),
            partial: has_more || raw.status.shows_unreadable_ip(),
            host_ports: raw.spec.host_ports(),
            static_ip: raw.metadata.static_ip(),
            node: raw.spec.node(),
            labels: Labels::of_pod(raw.metadata.labels.iter()),
        })
    }
}
