//! What stays in the kernel, what is taken over, what is removed: on network namespaces and a bpffs
//! of each test's own.

mod agent;
mod detach;
mod gate;
mod hooks;
mod layouts;
mod lifts;
mod maps;
pub(crate) mod node;
mod orphan_ip;
mod socket_lb;
mod switch;
mod sysdump;
mod takeover;
mod traffic;
mod tunnel;
mod uplink;
mod xdp;

use crate::programs::kernel::ip;
use crate::programs::world::denial;
use epguard::kernel::datapath::*;
use epguard::shared::clock::boot_ns;
use epguard_common::*;
use epguard_core::state::{OrphanIp, Tables};
use node::*;
