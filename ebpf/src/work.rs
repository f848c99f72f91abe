//! What the steps of a program find out about their packet.
//!
//! The stack of a program is too short for it, so it lies in an element of a map, one for each
//! processor. A program takes the element once, and hands it from step to step: what a step reads
//! and writes is in its parameters. The verifier hands only the context and numbers to a global
//! function, which has a stack of its own; such a function takes the element again.

use crate::found::Found;
use crate::maps;
use crate::redirect::{Destination, FlowPair};
use crate::reject::FoundWay;
use aya_ebpf::btf_maps::PerCpuArray;
use aya_ebpf::macros::btf_map;
use core::cell::UnsafeCell;
use epguard_common::{Connection, DenialKey, Entry, Meant, Packet, ServiceNumber, Vip};

/// No value outlives one run of a program. Only TC and XDP programs use it: no other program of
/// ours interrupts one of these on its processor.
#[btf_map]
static WORK: PerCpuArray<Work, 1> = PerCpuArray::new();

/// The packet of one run of a program, and what is known of it. A field is valid once its writer
/// has run; before that it is an earlier packet's.
#[repr(C)]
pub struct Work {
    /// The packet itself. Written first, where the frame is parsed.
    pub packet: Slot<Packet>,
    /// `_nfct` of the skb; 0 without one. Written by `conntrack`.
    pub reference: Slot<u64>,
    /// conntrack's entry of the packet. Written by `conntrack`.
    pub entry: Slot<Entry>,
    /// What the client asked for: as a translator recorded it, or the packet's own destination.
    /// Written by `records` and what it asks, and before an answer is made.
    pub meant: Slot<Meant>,
    /// The endpoint that the packet leaves for. Written by [`Work::set_key`].
    pub key: Slot<DenialKey>,
    /// Where the packet's socket is connected. Written by `socket`.
    pub connection: Slot<Connection>,
    /// The way of an answer to the packet. Written by `reject::way`.
    pub way: Slot<FoundWay>,
    /// The live endpoint that the packet goes to. Written by `redirect::destination`, and by the
    /// look-up of the verdict for a flow that opens.
    pub destination: Slot<Destination>,
    /// The redirected flow of a client's packet. Written by `redirect::pair`, or where it is
    /// entered.
    pub flow: Slot<FlowPair>,
    /// The redirected flow that has the packet's addresses at the live endpoint: of a reply its
    /// own. Written by `redirect::pair`.
    pub other_flow: Slot<FlowPair>,
}

impl Work {
    /// The element of this processor; `None` only if the map is missing.
    #[inline(always)]
    pub fn of_this_processor<'a>() -> Option<&'a Self> {
        // SAFETY: an element of an array map is never freed. All of it lies in cells, of which
        // every bit pattern is a value.
        WORK.get_ptr_mut(0).map(|work| unsafe { &*work })
    }

    /// Sets what the client asked for: the packet's own destination.
    #[inline(always)]
    pub fn mean_destination(&self) {
        self.mean(Vip::of(self.packet.get()));
    }

    /// Sets what the client asked for: this address of a Service, or of an endpoint.
    #[inline(always)]
    pub fn mean(&self, vip: Vip) {
        let packet = self.packet.get();
        self.meant.set(Meant {
            vip,
            client: packet.src,
            client_port: packet.src_port,
            endpoint_port: packet.dst_port,
        });
    }

    /// Sets the key to the endpoint that the packet leaves for, of the Service that its client
    /// asked for. If `found` is no translation, the key is of no Service, and `meant` may be an
    /// earlier packet's: no step reads it then.
    #[inline(always)]
    pub fn set_key(&self, found: Found) {
        let Meant {
            vip, endpoint_port, ..
        } = self.meant.get();
        let service = match found {
            Found::Conntrack | Found::Cilium | Found::Socket => maps::service(vip),
            _ => ServiceNumber::NONE,
        };
        let destination = self.packet.get().dst;
        let key = DenialKey::new(destination, service, *endpoint_port, vip.protocol);
        self.key.set(key);
    }
}

/// A field of [`Work`]. It has the address of a map's memory, so that the kernel's helpers and
/// global functions can fill it, too.
#[repr(transparent)]
pub struct Slot<T>(UnsafeCell<T>);

impl<T> Slot<T> {
    /// The value. A later step may replace it: only references to fields that no step between
    /// writes may be kept.
    #[inline(always)]
    pub fn get(&self) -> &T {
        // SAFETY: this processor's own memory, which no other program uses until this one ends.
        unsafe { &*self.0.get() }
    }

    /// Replaces the value.
    #[inline(always)]
    pub fn set(&self, value: T) {
        // SAFETY: as in `get`.
        unsafe { self.0.get().write(value) }
    }

    /// Where the value lies.
    #[inline(always)]
    pub const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }

    /// The value, to change it in place. As in [`Slot::get`], for as long as no other step uses it.
    #[inline(always)]
    #[allow(
        clippy::mut_from_ref,
        reason = "a copy would need the stack; one step at a time uses a field"
    )]
    pub fn get_mut(&self) -> &mut T {
        // SAFETY: as in `get`.
        unsafe { &mut *self.0.get() }
    }
}
