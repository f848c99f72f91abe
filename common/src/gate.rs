//! The gate: packets that nothing is wrong with end here, before they are parsed.
//!
//! Two tables hold a byte for each bucket of addresses. A packet whose addresses fall into buckets
//! without a bit needs no verdict. The second table is looked at only on a hit of the first: an
//! address that shares a bucket in one seldom shares one in the other. A bit too many costs time; a
//! bit too few would miss a denial, or a lift. So the agent sets bits before it writes an entry,
//! and clears them after it has removed one.

use crate::{Addr, View};

/// Buckets of addresses in each table.
pub const BUCKETS: usize = 8_192;

/// The one element of GATE, and of `SECOND_GATE`. Written by the agent's map writer only.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gate {
    /// In GATE, for both tables: [`Gate::WRITTEN`], [`Gate::SHOWS_FLOWS`], [`Gate::HAS_SECOND`]. 0:
    /// no agent has written them, and they end no packet. In `SECOND_GATE` always 0.
    pub valid: u32,
    /// Bits of each bucket.
    pub buckets: [u8; BUCKETS],
}

impl Gate {
    /// GATE shows the addresses of SUSPECTS and TERMINATED.
    pub const WRITTEN: u32 = 1;
    /// It also shows those of redirected flows. Without this, every packet is judged while there
    /// may be such flows.
    pub const SHOWS_FLOWS: u32 = 2;
    /// `SECOND_GATE` shows all that GATE does. An agent that does not know the second table clears
    /// this.
    pub const HAS_SECOND: u32 = 4;

    /// An address of SUSPECTS.
    pub const SUSPECT: u8 = 1;
    /// An address of TERMINATED.
    pub const TERMINATED: u8 = 2;
    /// A denied endpoint whose flows are redirected, or a live one that they go to.
    pub const FLOW: u8 = 4;

    /// All that `valid` may say.
    pub const VALID: u32 = Self::WRITTEN | Self::SHOWS_FLOWS | Self::HAS_SECOND;
}

/// Both tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gates {
    /// GATE.
    pub first: Gate,
    /// `SECOND_GATE`.
    pub second: Gate,
}

impl Gates {
    /// Tables without addresses.
    pub const EMPTY: Self = Self {
        first: Gate {
            valid: Gate::VALID,
            buckets: [0; BUCKETS],
        },
        second: Gate {
            valid: 0,
            buckets: [0; BUCKETS],
        },
    };

    /// Adds an address.
    pub fn add(&mut self, addr: Addr, bit: u8) {
        let hash = Hash::of(addr.words());
        self.first.buckets[hash.first()] |= bit;
        self.second.buckets[hash.second()] |= bit;
    }

    /// The bits of all buckets.
    pub fn bits(&self) -> impl Iterator<Item = u8> {
        self.first.buckets.into_iter().chain(self.second.buckets)
    }

    /// The same, to change them.
    pub fn bits_mut(&mut self) -> impl Iterator<Item = &mut u8> {
        self.first
            .buckets
            .iter_mut()
            .chain(&mut self.second.buckets)
    }

    /// The bits that both tables have for an address.
    pub fn flags_at(&self, addr: Addr) -> u8 {
        let hash = Hash::of(addr.words());
        self.first.buckets[hash.first()] & self.second.buckets[hash.second()]
    }
}

/// What places an address into buckets.
#[derive(Clone, Copy)]
pub struct Hash(u64);

impl Hash {
    /// The hash of an address, from its words as they lie in memory. The octets that differ between
    /// the pods of a node become the highest bits of the second word, and stay distinct in the
    /// highest bits of the product.
    #[inline(always)]
    pub const fn of(words: [u32; 4]) -> Self {
        let high = words[0] as u64 | (words[1] as u64) << 32;
        let low = words[2] as u64 | (words[3] as u64) << 32;
        let mixed = high.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ low;
        let mixed = mixed ^ mixed >> 29;
        Self(mixed.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// The bucket of the first table: the highest bits.
    #[inline(always)]
    pub const fn first(self) -> usize {
        self.bucket(51)
    }

    /// The bucket of the second table: the bits below.
    #[inline(always)]
    pub const fn second(self) -> usize {
        self.bucket(38)
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "13 bits are left")]
    const fn bucket(self, shift: u32) -> usize {
        (self.0 >> shift) as usize & (BUCKETS - 1)
    }
}

/// What the gate sees of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Glance {
    /// Bits of the source's bucket.
    pub src: u8,
    /// Bits of the destination's bucket.
    pub dst: u8,
}

impl Glance {
    /// Whether the packet needs a verdict at the ingress hook.
    #[inline(always)]
    pub const fn asks_at_ingress(self, view: &View) -> bool {
        let by_socket = view.socket_lb != 0 && self.dst & Gate::SUSPECT != 0;
        by_socket || self.src & Gate::FLOW != 0
    }

    /// Whether the packet needs a verdict at the egress hook.
    #[inline(always)]
    pub const fn asks_at_egress(self) -> bool {
        self.dst != 0 || self.src & (Gate::FLOW | Gate::TERMINATED) != 0
    }

    /// Whether the packet may go to an orphan IP, or show that it has a holder.
    #[inline(always)]
    pub const fn asks_about_orphans(self) -> bool {
        (self.src | self.dst) & Gate::TERMINATED != 0
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
