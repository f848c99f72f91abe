//! What the programs need of an skb.

use aya_ebpf::helpers::generated::{
    bpf_get_current_pid_tgid, bpf_ktime_get_boot_ns, bpf_skb_load_bytes_relative,
};
use aya_ebpf::{EbpfContext as _, bindings::__sk_buff, programs::TcContext};
use core::mem::MaybeUninit;
use epguard_common::{Bytes, Moment, Packet, Slot, parse};

/// Offsets from the network header, wherever the device puts it: `BPF_HDR_START_NET`, Linux 5.0 in TC programs.
const FROM_NETWORK_HEADER: u32 = 1;

struct Skb(*mut __sk_buff);

impl Bytes for Skb {
    #[inline(always)]
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.load(offset)
    }

    #[inline(always)]
    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]> {
        self.load(offset)
    }
}

impl Skb {
    /// `T` is an array of integers: every bit pattern is one.
    #[inline(always)]
    fn load<T: Copy>(&self, offset: u32) -> Option<T> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the helper fills all of T or fails; the context is the program's own.
        unsafe {
            let to = value.as_mut_ptr().cast();
            let size = size_of::<T>() as u32;
            let failed = bpf_skb_load_bytes_relative(self.0.cast(), offset, to, size, FROM_NETWORK_HEADER);
            (failed == 0).then(|| value.assume_init())
        }
    }
}

/// The packet, if it is an IP packet and whole enough to judge.
#[inline(always)]
pub fn packet(ctx: &TcContext) -> Option<Packet> {
    let skb = ctx.skb.skb;
    // SAFETY: a field of the program's own context. Network order in the low 16 bits.
    let protocol = unsafe { (*skb).protocol };
    parse(&Skb(skb), u16::from_be(protocol as u16))
}

/// Writes the intent for the To hook. `tc_classid` too: if a TCX program behind us answers PASS, the kernel copies it
/// to `tc_index`, and what lies there before is left over from somebody else's use of `skb->cb`.
#[inline(always)]
pub fn write_intent(ctx: &TcContext, slot: Slot) {
    let skb = ctx.skb.skb;
    // SAFETY: fields of the program's own context that TC programs may write.
    unsafe {
        (*skb).tc_index = u32::from(slot.number);
        (*skb).tc_classid = u32::from(slot.number);
    }
}

/// Takes the intent off the packet, and whether a To hook has done so before: a tunnel's outer packet is not the one
/// that was meant, nor does it leave its socket a second time.
#[inline(always)]
pub fn take_intent(ctx: &TcContext) -> (Slot, bool) {
    let skb = ctx.skb.skb;
    // SAFETY: as in `write_intent`.
    unsafe {
        let raw = (*skb).tc_index;
        (*skb).tc_index = Slot::JUDGED;
        (Slot::from_raw(raw), raw == Slot::JUDGED)
    }
}

/// The socket that sent the packet, if it is one of this node's own; 0 for forwarded packets.
#[inline(always)]
pub fn socket_cookie(ctx: &TcContext) -> u64 {
    // SAFETY: takes the program's own context.
    unsafe { aya_ebpf::helpers::generated::bpf_get_socket_cookie(ctx.as_ptr()) }
}

/// Nanoseconds of `CLOCK_BOOTTIME`, which goes on while the machine sleeps: a lease must not survive that. Linux 5.8.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: no arguments.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// Now, on behalf of which thread.
#[inline(always)]
pub fn moment() -> Moment {
    // SAFETY: no arguments.
    let thread = unsafe { bpf_get_current_pid_tgid() };
    Moment {
        now_ns: now_ns(),
        tid: thread as u32,
    }
}
