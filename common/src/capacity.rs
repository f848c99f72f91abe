//! Sizes of the maps. Memory: OWNERS (about 120 bytes an entry) and BACKENDS are allocated on
//! demand, the others at load.

/// IPs that OWNERS shows.
pub const OWNERS: usize = 262_144;
/// Suspects at one time; beyond it new ones are refused (fail open). 16,384 * ~120 bytes = 2 MB.
pub const SUSPECTS: usize = 16_384;
/// VIP, port, protocol of affected Services. 3 MB.
pub const SERVICES: usize = 32_768;
/// Denied endpoints. 65,536 * ~180 bytes = 12 MB.
pub const DENIED: usize = 65_536;
/// (reason, outcome) pairs.
pub const COUNTERS: usize = crate::counters::COUNTERS;
/// Denials whose packets are counted one by one; the packets of others are only counted by reason
/// and outcome. Allocated on demand: an entry takes about 100 bytes and 128 for each processor.
pub const DENIAL_COUNTS: usize = 16_384;
/// Bytes of the ring buffer.
pub const EVENTS: usize = 1 << 18;
/// Denied endpoints whose flows are redirected. Allocated on demand, up to 4,096 * ~650 bytes = 2.7
/// MB.
pub const BACKENDS: usize = 4_096;
/// Redirected TCP connections whose handshake is proven, and again by their answers. Beyond it they
/// stay in OPENING. Allocated on demand, up to 2 * 16,384 * ~150 bytes = 5 MB.
pub const FLOWS: usize = 16_384;
/// Of these, at most this many of one client address, so that no client takes the others' room.
pub const FLOWS_PER_CLIENT: u32 = 2_048;
/// Redirected flows that open or have closed, and UDP; the kernel drops the coldest. 2 * 16,384 *
/// ~150 bytes = 5 MB.
pub const OPENING: usize = 16_384;
/// Orphan IPs of this node; a node's range is rarely larger than a /22.
pub const TERMINATED: usize = 4_096;
/// Interfaces of the node.
pub const INTERFACES: usize = 4_096;
/// Uplinks with an XDP program.
pub const MACS: usize = 256;
