//! A packet under the hands of `epguard_common::answer`, as TC programs can change it.

use crate::skb::Skb;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::{
    bpf_l4_csum_replace, bpf_skb_adjust_room, bpf_skb_change_tail, bpf_skb_load_bytes, bpf_skb_store_bytes,
};
use core::mem::MaybeUninit;
use epguard_common::{Bytes, Rewrite};

const ETHERNET: u32 = 14;

/// An skb that becomes its own answer.
pub struct Turned<'a> {
    skb: &'a Skb,
    /// Octets before the network header.
    link: u32,
}

impl<'a> Turned<'a> {
    /// Finds out whether the device has Ethernet headers: where there is none, the first octet of the frame is that of
    /// the IP header. Only trying tells for certain; what lies there is the same afterwards.
    #[inline(always)]
    pub fn new(skb: &'a Skb) -> Option<Self> {
        let mut turned = Self { skb, link: 0 };
        let [first]: [u8; 1] = turned.load(0)?;
        let [network]: [u8; 1] = skb.read(0)?;
        turned.store(0, [!first])?;
        let [after]: [u8; 1] = skb.read(0)?;
        turned.store(0, [first])?;
        if after == network {
            turned.link = ETHERNET;
        }
        Some(turned)
    }

    /// Sends the frame back to where it came from, as far as the link layer goes.
    #[inline(always)]
    pub fn swap_ends(&mut self) -> Option<()> {
        if self.link == 0 {
            return Some(());
        }
        let [d0, d1, d2, s0, s1, s2]: [u16; 6] = self.load(0)?;
        self.store(0, [s0, s1, s2, d0, d1, d2])
    }

    /// From the start of the frame. `T` is an array of integers: every bit pattern is one.
    #[inline(always)]
    fn load<T: Copy>(&self, offset: u32) -> Option<T> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the helper fills all of T or fails; the context is the program's own.
        unsafe {
            let to = value.as_mut_ptr().cast();
            let failed = bpf_skb_load_bytes(self.skb.as_ptr(), offset, to, size_of::<T>() as u32);
            (failed == 0).then(|| value.assume_init())
        }
    }

    /// As [`Turned::load`]. Sums of the kernel are not kept up to date, see [`Rewrite::resize`].
    #[inline(always)]
    fn store<T: Copy>(&mut self, offset: u32, value: T) -> Option<()> {
        let from = (&raw const value).cast();
        // SAFETY: as many octets as T has; the context is the program's own.
        let failed =
            unsafe { bpf_skb_store_bytes(self.skb.as_ptr().cast(), offset, from, size_of::<T>() as u32, 0) };
        (failed == 0).then_some(())
    }
}

impl Bytes for Turned<'_> {
    #[inline(always)]
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.skb.read(offset)
    }

    #[inline(always)]
    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]> {
        self.skb.words(offset)
    }
}

impl Rewrite for Turned<'_> {
    #[inline(always)]
    fn write<const N: usize>(&mut self, offset: u32, words: [u32; N]) -> Option<()> {
        self.store(self.link + offset, words)
    }

    /// In two steps, as a frame that has the length already keeps its GSO and its `CHECKSUM_COMPLETE`.
    #[inline(always)]
    fn resize(&mut self, length: u32) -> Option<()> {
        let length = self.link + length;
        // SAFETY: takes the program's own context and numbers.
        let failed = unsafe {
            bpf_skb_change_tail(self.skb.as_ptr().cast(), length + 1, 0) != 0
                || bpf_skb_change_tail(self.skb.as_ptr().cast(), length, 0) != 0
        };
        (!failed).then_some(())
    }

    #[inline(always)]
    fn cut_options(&mut self, count: u32) -> Option<()> {
        const BEHIND_NETWORK_HEADER: u32 = 0;
        let change = 0i32.wrapping_sub_unsigned(count);
        // SAFETY: takes the program's own context and numbers.
        let failed =
            unsafe { bpf_skb_adjust_room(self.skb.as_ptr().cast(), change, BEHIND_NETWORK_HEADER, 0) };
        (failed == 0).then_some(())
    }

    /// The kernel adjusts a transport checksum for changes outside of the pseudo-header only if it is complete.
    #[inline(always)]
    fn is_partial(&mut self, offset: u32) -> Option<bool> {
        const TWO_OCTETS: u64 = 2;
        let at = self.link + offset;
        // SAFETY: takes the program's own context and numbers.
        let failed = unsafe { bpf_l4_csum_replace(self.skb.as_ptr().cast(), at, 0, 1, TWO_OCTETS) };
        if failed != 0 {
            return None;
        }
        self.skb.read::<2>(offset).map(|octets| octets == [0, 0])
    }
}
