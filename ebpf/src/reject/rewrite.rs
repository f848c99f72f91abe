//! An skb that `epguard_common::answer` rewrites, with the helpers of TC programs.

use crate::link::{ETHERNET, Link};
use crate::skb::Skb;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::{
    bpf_l4_csum_replace, bpf_skb_adjust_room, bpf_skb_change_head, bpf_skb_change_tail,
};
use epguard_common::{Bytes, Rewrite};

/// An skb that becomes its own answer. The kernel's checksums do not follow, see
/// [`Rewrite::resize`].
pub struct RewrittenSkb<'a>(Link<'a>);

impl<'a> RewrittenSkb<'a> {
    /// An skb of any device.
    #[inline(always)]
    pub fn new(skb: &'a Skb<'a>) -> Option<Self> {
        Link::from_skb(skb).map(Self)
    }

    /// Swaps the Ethernet addresses.
    #[inline(always)]
    pub fn swap_ends(&mut self) -> Option<()> {
        let [d0, d1, d2, s0, s1, s2] = self.0.ethernet()?;
        self.0.set_ethernet([s0, s1, s2, d0, d1, d2])
    }

    /// As the Ethernet header of a packet that enters at the interface with this address, see
    /// [`Link::entering`].
    #[inline(always)]
    pub fn set_ends(&mut self, station: [u16; 3]) -> Option<()> {
        let ends = self.0.entering(station)?;
        self.0.set_ethernet(ends)
    }

    /// Makes room for an Ethernet header where there is none, as `bpf_redirect_neigh` expects one.
    #[inline(always)]
    pub fn make_header(&mut self) -> Option<()> {
        if self.0.length != 0 {
            return Some(());
        }
        // SAFETY: takes the program's own context and numbers.
        let failed = unsafe { bpf_skb_change_head(self.0.skb.as_ptr().cast(), ETHERNET, 0) };
        if failed != 0 {
            return None;
        }
        Some(())
    }
}

impl Bytes for RewrittenSkb<'_> {
    #[inline(always)]
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.0.skb.read(offset)
    }

    #[inline(always)]
    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]> {
        self.0.skb.words(offset)
    }
}

impl Rewrite for RewrittenSkb<'_> {
    #[inline(always)]
    fn write<const N: usize>(&mut self, offset: u32, words: [u32; N]) -> Option<()> {
        self.0.store(self.0.length + offset, words)
    }

    /// In two steps, as a frame that has the length already keeps its GSO and its
    /// `CHECKSUM_COMPLETE`.
    #[inline(always)]
    fn resize(&mut self, length: u32) -> Option<()> {
        let length = self.0.length + length;
        // SAFETY: takes the program's own context and numbers.
        let failed = unsafe {
            bpf_skb_change_tail(self.0.skb.as_ptr().cast(), length + 1, 0) != 0
                || bpf_skb_change_tail(self.0.skb.as_ptr().cast(), length, 0) != 0
        };
        if failed {
            return None;
        }
        Some(())
    }

    #[inline(always)]
    fn cut_options(&mut self, count: u32) -> Option<()> {
        const BEHIND_NETWORK_HEADER: u32 = 0;
        let change = 0i32.wrapping_sub_unsigned(count);
        // SAFETY: takes the program's own context and numbers.
        let failed = unsafe {
            bpf_skb_adjust_room(self.0.skb.as_ptr().cast(), change, BEHIND_NETWORK_HEADER, 0)
        };
        if failed != 0 {
            return None;
        }
        Some(())
    }

    /// The kernel adjusts a transport checksum for changes outside of the pseudo-header only if it
    /// is complete.
    #[inline(always)]
    fn is_partial(&mut self, offset: u32) -> Option<bool> {
        const TWO_OCTETS: u64 = 2;
        let at = self.0.length + offset;
        // SAFETY: takes the program's own context and numbers.
        let failed =
            unsafe { bpf_l4_csum_replace(self.0.skb.as_ptr().cast(), at, 0, 1, TWO_OCTETS) };
        if failed != 0 {
            return None;
        }
        self.0.skb.read::<2>(offset).map(|octets| octets == [0, 0])
    }
}
