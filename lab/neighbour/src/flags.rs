//! The fields of a packet that Cilium keeps flags in, used with the same accesses:
//! `lib/overloadable_skb.h` and `lib/proxy.h`.

use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::helpers::generated::bpf_get_prandom_u32;
use aya_ebpf::programs::TcContext;
use core::ptr::{read_volatile, write_volatile};
use core::sync::atomic::{Ordering, compiler_fence};
use epguard_common::ANSWER;

/// `TC_INDEX_F_FROM_INGRESS_PROXY`, called `..._SKIP_INGRESS_PROXY` up to 1.16, of `lib/common.h`:
/// bit 0.
const FROM_INGRESS_PROXY: u32 = 1;
/// `MARK_MAGIC_HOST_MASK` of `lib/common.h`.
const MARK_MAGIC_MASK: u32 = 0x0f00;
/// `MARK_MAGIC_PROXY_INGRESS` of `lib/common.h`.
const MARK_MAGIC_PROXY_INGRESS: u32 = 0x0a00;

/// A packet's metadata.
pub struct Fields(*mut __sk_buff);

impl Fields {
    /// Of the program's own context.
    #[inline(always)]
    pub fn of(ctx: &TcContext) -> Self {
        Self(ctx.skb.skb)
    }

    /// The whole field, 16 bits in the kernel.
    #[inline(always)]
    fn tc_index(&self) -> u32 {
        // SAFETY: a field of the program's own context.
        unsafe { (*self.0).tc_index }
    }

    /// Whether a proxy sent the packet: model `tc_index_from_ingress_proxy()` of `lib/proxy.h`. The
    /// local variable there is `volatile`, so the value is stored on the stack before its bit is
    /// tested.
    #[inline(always)]
    pub fn is_from_ingress_proxy(&self) -> bool {
        on_the_stack(self.tc_index()) & FROM_INGRESS_PROXY != 0
    }

    /// Sets the flag for packets that a proxy has marked: model `inherit_identity_from_host()` of
    /// `lib/identity.h`.
    #[inline(always)]
    pub fn inherit_proxy_from_mark(&self) {
        // SAFETY: as in `tc_index`; TC programs may write it.
        unsafe {
            if (*self.0).mark & MARK_MAGIC_MASK == MARK_MAGIC_PROXY_INGRESS {
                (*self.0).tc_index |= FROM_INGRESS_PROXY;
            }
        }
        // Cilium's programs call helpers here: the field is written in its branch, and read again
        // afterwards.
        compiler_fence(Ordering::SeqCst);
    }

    /// Clears `cb` and, "mainly for tcx", `tc_classid`: model `bpf_clear_meta()` of
    /// `lib/overloadable_skb.h`. Each write is volatile, as with `WRITE_ONCE`.
    #[inline(always)]
    pub fn clear_meta(&self) {
        // SAFETY: as in `inherit_proxy_from_mark`.
        unsafe {
            write_volatile(&raw mut (*self.0).cb[0], 0);
            write_volatile(&raw mut (*self.0).cb[1], 0);
            write_volatile(&raw mut (*self.0).cb[2], 0);
            write_volatile(&raw mut (*self.0).cb[3], 0);
            write_volatile(&raw mut (*self.0).cb[4], 0);
            write_volatile(&raw mut (*self.0).tc_classid, 0);
        }
    }

    /// Writes numbers that change from packet to packet into `tc_index`, `mark`, `priority`,
    /// `tc_classid` and `cb`. Some values of `tc_index` are special: none, all bits, and the one of
    /// epguard's own answers. kube-proxy's bits of the mark stay.
    #[inline(always)]
    pub fn scramble(&self) {
        const KUBE_PROXY: u32 = 0xc000;
        // SAFETY: takes nothing.
        let number = || unsafe { bpf_get_prandom_u32() };
        let tc_index = match number() & 7 {
            0 => 0,
            1 => 0xffff,
            2 => ANSWER,
            _ => number() & 0xffff,
        };
        // SAFETY: as in `inherit_proxy_from_mark`.
        unsafe {
            let skb = self.0;
            let kept = read_volatile(&raw const (*skb).mark) & KUBE_PROXY;
            write_volatile(&raw mut (*skb).tc_index, tc_index);
            write_volatile(&raw mut (*skb).mark, number() & !KUBE_PROXY | kept);
            write_volatile(&raw mut (*skb).priority, number());
            write_volatile(&raw mut (*skb).tc_classid, number());
            write_volatile(&raw mut (*skb).cb[0], number());
            write_volatile(&raw mut (*skb).cb[4], number());
        }
    }
}

/// Stores the value on the program's stack and loads it from there.
#[inline(always)]
fn on_the_stack(value: u32) -> u32 {
    let mut local = 0;
    // SAFETY: a local variable.
    unsafe {
        write_volatile(&raw mut local, value);
        read_volatile(&raw const local)
    }
}
