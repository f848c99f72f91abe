//! The answer of an XDP program: a packet becomes its own answer before the kernel makes an skb.

use crate::frame::Origin as _;
use crate::maps;
use crate::xdp::Raw;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_TX};
use aya_ebpf::bindings::xdp_md;
use aya_ebpf::helpers::generated::{bpf_xdp_adjust_tail, bpf_xdp_store_bytes};
use epguard_common::{Bytes, Outcome, Reason, Rewrite, Vip, reset};

const ETHERNET: u32 = 14;
/// The shortest Ethernet frame without its checksum. Not every device pads a shorter one.
const SHORTEST: u32 = 60;

/// Makes the frame its own answer, and sends it out of the device that it entered by. A global
/// function, see `send_answer`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn turn_round_early(context: *mut xdp_md) -> u32 {
    if turn(&Raw::new(context)).is_none() {
        maps::count(Reason::Nothing, Outcome::AnswerFailed, 0);
        return XDP_DROP;
    }
    XDP_TX
}

#[inline(always)]
fn turn(frame: &Raw) -> Option<()> {
    let packet = maps::packet()?;
    let mut turned = Turned(frame);
    maps::mean(Vip::of(packet));
    reset(&mut turned, packet, maps::meant()?)?;
    let [d0, d1, d2, s0, s1, s2]: [u16; 6] = turned.0.load(0)?;
    turned.store(0, [s0, s1, s2, d0, d1, d2])
}

struct Turned<'a>(&'a Raw);

impl Turned<'_> {
    /// From the start of the frame.
    #[inline(always)]
    fn store<T: Copy>(&mut self, offset: u32, value: T) -> Option<()> {
        let from = (&raw const value).cast_mut().cast();
        // SAFETY: as many octets as T has, which are only read; the context is the program's own.
        // Linux 5.18.
        let failed = unsafe {
            bpf_xdp_store_bytes(self.0.as_ptr().cast(), offset, from, size_of::<T>() as u32)
        };
        (failed == 0).then_some(())
    }
}

impl Bytes for Turned<'_> {
    #[inline(always)]
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.0.read(offset)
    }

    #[inline(always)]
    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]> {
        self.0.words(offset)
    }
}

impl Rewrite for Turned<'_> {
    #[inline(always)]
    fn write<const N: usize>(&mut self, offset: u32, words: [u32; N]) -> Option<()> {
        self.store(ETHERNET + offset, words)
    }

    #[inline(always)]
    fn resize(&mut self, length: u32) -> Option<()> {
        let before = self.0.length();
        let after = (ETHERNET + length).max(before.min(SHORTEST));
        // SAFETY: takes the program's own context and a number.
        let failed = unsafe {
            bpf_xdp_adjust_tail(
                self.0.as_ptr().cast(),
                after.wrapping_sub(before).cast_signed(),
            )
        };
        (failed == 0).then_some(())
    }

    /// The TC program rejects packets with options.
    #[inline(always)]
    fn cut_options(&mut self, _: u32) -> Option<()> {
        None
    }

    /// A received frame has its whole checksum: no device completes one behind XDP.
    #[inline(always)]
    fn is_partial(&mut self, _: u32) -> Option<bool> {
        Some(false)
    }
}
