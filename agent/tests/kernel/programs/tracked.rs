//! The conntrack entry that a packet has in a test run.

use epguard_common::{Addr, Entry, Tuple};

/// Element of `TEST_ENTRY`: conntrack's entry of a packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tracked {
    /// Address and `enum ip_conntrack_info`.
    pub reference: u64,
    pub entry: Entry,
}

// SAFETY: `repr(C)` and integers only, without implicit padding.
unsafe impl aya::Pod for Tracked {}

impl Tracked {
    /// Of a packet that conntrack has not seen.
    pub const NONE: Self = Self {
        reference: 0,
        entry: Entry {
            original: NO_TUPLE,
            between: [0; 2],
            reply: NO_TUPLE,
        },
    };

    /// Any address, and `IP_CT_ESTABLISHED`.
    const ESTABLISHED: u64 = 0xffff_8881_0000_1000;

    /// The entry of a connection from a client through a VIP to an endpoint.
    pub fn translated(
        client: (Addr, u16),
        vip: (Addr, u16),
        endpoint: (Addr, u16),
        protocol: u8,
    ) -> Self {
        let tuple = |(src, src_port): (Addr, u16), (dst, dst_port): (Addr, u16), direction| Tuple {
            src: words(src),
            src_port: src_port.to_be(),
            family: if src.is_v4() { 2 } else { 10 },
            dst: words(dst),
            dst_port: dst_port.to_be(),
            protocol,
            direction,
        };
        let entry = Entry {
            original: tuple(client, vip, 0),
            between: [1, 2],
            reply: tuple(endpoint, client, 1),
        };
        let reference = Self::ESTABLISHED;
        Self { reference, entry }
    }

    /// The same, with another `enum ip_conntrack_info`.
    pub fn with_info(self, info: u64) -> Self {
        let reference = self.reference & !7 | info;
        Self { reference, ..self }
    }
}

const NO_TUPLE: Tuple = Tuple {
    src: [0; 4],
    src_port: 0,
    family: 0,
    dst: [0; 4],
    dst_port: 0,
    protocol: 0,
    direction: 0,
};

/// An address as conntrack holds it.
fn words(addr: Addr) -> [u32; 4] {
    let [a, b, c, d] = addr.words();
    if addr.is_v4() {
        [d, 0, 0, 0]
    } else {
        [a, b, c, d]
    }
}
