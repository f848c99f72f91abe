//! The answer of an XDP program: a packet becomes its own answer before the kernel makes an skb.

use crate::frame::Origin as _;
use crate::link::ETHERNET;
use crate::maps;
use crate::work::Work;
use crate::xdp_frame::XdpFrame;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_TX};
use aya_ebpf::bindings::xdp_md;
use aya_ebpf::helpers::generated::{bpf_xdp_adjust_tail, bpf_xdp_store_bytes};
use epguard_common::{Bytes, Outcome, Reason, Rewrite, reset};

/// The shortest Ethernet frame without its checksum. Not every device pads a shorter one.
const SHORTEST: u32 = 60;

/// Makes the frame its own answer, and sends it out of the device that it entered by: in the name
/// of the packet's own destination, which is `meant` since the judgement. A global function, see
/// `send_answer`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn turn_round_early(context: *mut xdp_md) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return XDP_DROP;
    };
    if turn_round(&XdpFrame::new(context, work)).is_none() {
        maps::count(Reason::Nothing, Outcome::AnswerFailed, 0);
        return XDP_DROP;
    }
    XDP_TX
}

#[inline(always)]
fn turn_round(frame: &XdpFrame) -> Option<()> {
    let mut rewritten = RewrittenFrame(frame);
    reset(
        &mut rewritten,
        frame.work.packet.get(),
        frame.work.meant.get(),
    )?;
    let [d0, d1, d2, s0, s1, s2]: [u16; 6] = frame.load(0)?;
    rewritten.store(0, [s0, s1, s2, d0, d1, d2])
}

/// A frame that becomes its own answer.
struct RewrittenFrame<'a>(&'a XdpFrame<'a>);

impl RewrittenFrame<'_> {
    /// From the start of the frame.
    #[inline(always)]
    fn store<T: Copy>(&mut self, offset: u32, value: T) -> Option<()> {
        let from = (&raw const value).cast_mut().cast();
        // SAFETY: as many octets as T has, which are only read; the context is the program's own.
        // Linux 5.18.
        let failed = unsafe {
            bpf_xdp_store_bytes(self.0.as_ptr().cast(), offset, from, size_of::<T>() as u32)
        };
        if failed != 0 {
            return None;
        }
        Some(())
    }
}

impl Bytes for RewrittenFrame<'_> {
    #[inline(always)]
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.0.read(offset)
    }

    #[inline(always)]
    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]> {
        self.0.words(offset)
    }
}

impl Rewrite for RewrittenFrame<'_> {
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
        if failed != 0 {
            return None;
        }
        Some(())
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
