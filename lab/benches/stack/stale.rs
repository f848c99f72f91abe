//! The stale IPs: 1,000 orphan IPs, and 1,000 suspects behind 20 Services. The measured traffic uses none of them.

use epguard_common::{Addr, Gate, Mode, ServiceNumber, Uid, bucket};
use epguard_core::state::{OrphanIp, Tables};
use epguard_lab::programs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// The range of the orphan IPs. The node has a blackhole route for it, as Calico has for a node's blocks.
pub(crate) const ORPHANS: &str = "10.245.0.0/16";

/// An unused IP of the node, whose last pod is dead.
pub(crate) fn orphan(number: u16) -> Ipv4Addr {
    let [high, low] = (number % 1_000).to_be_bytes();
    Ipv4Addr::new(10, 245, high, low)
}

/// An IP on another node, which a Service still lists for a dead pod.
fn suspect(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(10, 246, high, low)
}

/// All of them, for packet filters.
pub(crate) fn all() -> Vec<Ipv4Addr> {
    (0..1_000).flat_map(|number| [orphan(number), suspect(number)]).collect()
}

/// The same addresses, for epguard. `denied` is a further pair of a Service and an endpoint.
pub(crate) fn tables(denied: (SocketAddrV4, SocketAddrV4)) -> Tables {
    let mut tables = Tables::default();
    for number in 0..1_000 {
        let orphan_ip = OrphanIp { dead: Uid { octets: [7; 16] }, mode: Mode::Enforce, lifted: None };
        tables.terminated.insert(addr(orphan(number)), orphan_ip);
        let [_, of] = (number % 20).to_be_bytes();
        let service = ServiceNumber { number: 1 + u32::from(of) };
        programs::number(&mut tables, service, SocketAddr::from(([10, 96, 1, of], 80)));
        programs::deny(&mut tables, service, SocketAddr::from((suspect(number), 8080)));
    }
    let (vip, endpoint) = denied;
    let service = ServiceNumber { number: 21 };
    programs::number(&mut tables, service, vip.into());
    programs::deny(&mut tables, service, endpoint.into());
    tables
}

/// Whether the gate of [`tables`] also sends packets of this address to the full programs. One address in eight shares a bucket
/// with an orphan IP.
pub(crate) fn shares_bucket(ip: Ipv4Addr) -> bool {
    let mut gate = Gate::EMPTY;
    for stale in all() {
        gate.add(addr(stale), Gate::TERMINATED);
    }
    gate.buckets[bucket(addr(ip).words())] != 0
}

fn addr(ip: Ipv4Addr) -> Addr {
    Addr::v4(ip.octets())
}
