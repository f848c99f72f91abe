//! Objects of the watches and facts of the node, cut down to the few fields that decide.
//!
//! Conversion happens here, at the edge: nothing behind this module sees JSON. A bad value
//! (an IP "banana", an empty UID, an FQDN slice) is left out and counted; it never fails the
//! object around it, because an object left out could be the one that shows an IP alive.

mod annotations;
mod breaker_release;
mod change;
mod cidr;
mod json;
mod labels;
mod meta;
mod mode_policy;
mod networks;
mod node;
mod object;
mod object_name;
mod pod;
mod presence;
mod protocol;
mod routes;
mod selection;
mod service;
mod slice;
mod static_ip;
mod text;
mod watched;

pub use annotations::{Namespace, cut};
pub use breaker_release::BreakerRelease;
pub use change::Change;
pub use cidr::Cidr;
pub use json::OrDefault;
pub use labels::{Labels, Selector};
pub use meta::{Ignored, Meta, Unreadable};
pub use mode_policy::{ModePolicy, PolicyKey, WantedActions, WantedModes};
pub use node::{Node, NodeSeen, WATCHED_NODES};
pub use object::{Object, RawObject};
pub use object_name::ObjectName;
pub use pod::{Doubt, HostPort, Pod, Sandbox};
pub use presence::Presence;
pub use protocol::Protocol;
pub use routes::Routes;
pub use selection::{Part, Selection};
pub use service::{OnDenial, Service, ServicePort};
#[cfg(test)]
pub use slice::listing;
pub use slice::{ANY_PORT, ListedSlice, PortName, Slice, SliceEndpoint, SlicePort};
pub use static_ip::{STATIC_IPS, StaticIp};
pub use text::{Text, shared};
pub use watched::{Fact, Visitor, Watched};
