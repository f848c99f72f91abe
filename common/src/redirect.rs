//! Redirect: a flow that opens towards a denied endpoint goes to a live one of the same Service,
//! and stays there.
//!
//! The kernel's conntrack keeps the denied endpoint: packets get their new destination behind it,
//! replies their old source before it.

use crate::protocol::{TCP, UDP};
use crate::{Addr, Bytes, Packet, Uid};

/// The most live endpoints that a denial can name; with more of them the agent picks some.
pub const MAX_BACKENDS: usize = 16;

/// A live endpoint.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Backend {
    /// A pod's IP.
    pub addr: Addr,
    /// The pod. The endpoint is gone once OWNERS shows another pod at the IP, or none.
    pub uid: Uid,
    /// Host order.
    pub port: u16,
    /// Always 0.
    pub reserved: u16,
}

/// Value of BACKENDS, by denied endpoint: where flows that open towards it go.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backends {
    /// How many of `live` there are.
    pub count: u32,
    /// Not 0: all flows of a client go to the same one (`sessionAffinity: ClientIP`).
    pub sticky: u32,
    /// In the order of their addresses.
    pub live: [Backend; MAX_BACKENDS],
}

impl Backends {
    /// The first [`MAX_BACKENDS`] of them.
    pub fn new(sticky: bool, all: impl IntoIterator<Item = Backend>) -> Self {
        let mut backends = Self {
            sticky: sticky.into(),
            ..Self::default()
        };
        for (place, backend) in backends.live.iter_mut().zip(all) {
            *place = backend;
            backends.count += 1;
        }
        backends
    }

    /// All of them.
    pub fn all(&self) -> &[Backend] {
        let count = (self.count as usize).min(MAX_BACKENDS);
        self.live.get(..count).unwrap_or_default()
    }

    /// The endpoint for a flow: any of them, but for the same flow always the same, so that a SYN
    /// that is sent again goes the same way. `None` if there is none.
    #[inline(always)]
    pub fn choose(&self, packet: &Packet) -> Option<Backend> {
        Some(self.live[Self::choice(self.count, self.sticky, packet)?])
    }

    /// The same by number, for callers that must not hold a reference: other processors may write
    /// the entry.
    #[inline(always)]
    pub fn choice(count: u32, sticky: u32, packet: &Packet) -> Option<usize> {
        if count == 0 {
            return None;
        }
        let ports = u32::from(packet.src_port) << 16 | u32::from(packet.dst_port);
        let seed = if sticky == 0 { ports } else { 0 };
        let hash = packet.src.words().into_iter().fold(seed, scramble);
        Some((scramble(hash, 0) % count) as usize % MAX_BACKENDS)
    }

    /// Whether the endpoint is one of them.
    pub fn contains(&self, backend: &Backend) -> bool {
        self.live
            .iter()
            .take(self.count as usize)
            .any(|live| live == backend)
    }
}

/// Whether a packet can get another destination: not a fragment, as later ones have no port; not
/// SCTP, as no kernel helper updates its checksum; and no IPv6 extension header, which may contain
/// the address too.
#[inline(always)]
pub fn is_redirectable<B: Bytes>(bytes: &B, packet: &Packet) -> bool {
    const MORE_FRAGMENTS: u8 = 0x20;
    let whole = if packet.dst.is_v4() {
        let fragmentation = bytes.read::<1>(packet.network_at + 6);
        fragmentation.is_some_and(|[flags]| flags & MORE_FRAGMENTS == 0)
    } else {
        packet.transport_at == 40
    };
    whole && packet.network_at == 0 && matches!(packet.protocol, TCP | UDP)
}

/// A step of `MurmurHash3`, public domain.
#[inline(always)]
fn scramble(hash: u32, word: u32) -> u32 {
    let word = word
        .wrapping_mul(0xcc9e_2d51)
        .rotate_left(15)
        .wrapping_mul(0x1b87_3593);
    let hash = (hash ^ word)
        .rotate_left(13)
        .wrapping_mul(5)
        .wrapping_add(0xe654_6b64);
    (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::testing::SYN;
    use std::collections::BTreeMap;

    const fn backend(last: u8) -> Backend {
        Backend {
            addr: Addr::v4([10, 244, 1, last]),
            uid: Uid::NONE,
            port: 8080,
            reserved: 0,
        }
    }

    fn opening(client: u8, port: u16) -> Packet {
        Packet {
            src: Addr::v4([10, 244, 2, client]),
            src_port: port,
            ..SYN
        }
    }

    #[test]
    fn flows_spread_evenly_over_the_live_endpoints() {
        let backends = Backends::new(false, (1..=3).map(backend));
        let mut hits = BTreeMap::<Backend, u32>::new();
        for port in 30_000..33_000 {
            *hits
                .entry(backends.choose(&opening(7, port)).unwrap())
                .or_default() += 1;
        }
        assert_eq!(hits.len(), 3);
        for (backend, hits) in hits {
            assert!((900..1100).contains(&hits), "{backend:?}: {hits} of 3000");
        }
    }

    #[test]
    fn a_flow_goes_the_same_way_each_time_and_a_sticky_client_with_all_its_flows() {
        let backends = Backends::new(false, (1..=3).map(backend));
        assert_eq!(
            backends.choose(&opening(7, 1)),
            backends.choose(&opening(7, 1))
        );
        let sticky = Backends::new(true, (1..=3).map(backend));
        let chosen = |client, port| sticky.choose(&opening(client, port));
        assert!((0..1000).all(|port| chosen(7, port) == chosen(7, 0)));
        assert!((0..=255).any(|client| chosen(client, 0) != chosen(7, 0)));
    }

    #[test]
    fn without_a_live_endpoint_there_is_no_choice_and_too_many_are_cut() {
        assert_eq!(Backends::default().choose(&opening(7, 1)), None);
        let many = Backends::new(false, (0..=255).map(backend));
        assert_eq!(many.count, 16);
        assert!((0..1000).all(|port| many.contains(&many.choose(&opening(7, port)).unwrap())));
    }
}
