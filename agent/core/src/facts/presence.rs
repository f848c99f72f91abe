//! Reports about holders of IPs that come from the node, not from the API.

use super::cidr::Cidr;
use super::routes::Routes;
use epguard_common::Addr;
use std::time::Duration;

/// A report about holders of IPs, from the node's own routes or from the datapath.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// All routes of this node to parts of its ranges.
    Routes(Routes),
    /// The routes are unknown, or were not read: a pod may hold any IP.
    Unknown,
    /// Such routes were announced; they may be gone again.
    Announced(Vec<Cidr>),
    /// The datapath saw a packet from the IP, then (`CLOCK_BOOTTIME`).
    Spoke(Addr, Duration),
}
