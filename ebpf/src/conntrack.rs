//! The conntrack entry of an skb: the packet holds a reference to it, so it stays while the program
//! runs.

use crate::found::Found;
use crate::maps;
use crate::work::Work;
use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use aya_ebpf::macros::btf_map;
use core::ptr::addr_of;
use epguard_common::{Entry, Record, Reference};

/// Where `_nfct` lies in `struct sk_buff`; 0: not known, or this kernel lets no program read it.
/// The agent sets it before it loads the programs, and the verifier then leaves out the other
/// branch.
#[unsafe(no_mangle)]
static NFCT_AT: u32 = 0;

/// In place of the skb's own entry, for `epguard_selftest`: a test run has none.
#[btf_map]
static TEST_ENTRY: Array<TestEntry, 1> = Array::new();

/// Element of `TEST_ENTRY`.
#[repr(C)]
pub struct TestEntry {
    reference: u64,
    entry: Entry,
}

/// What conntrack recorded about the packet. Sets the reference, the entry, and what the client
/// asked for. Global: it has the stack for itself, and the verifier checks it once. Linux 5.6;
/// `bpf_probe_read_kernel` in TC programs: 5.8, with `CAP_PERFMON`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn read_entry(context: *mut __sk_buff) -> u32 {
    // SAFETY: a static that is never written; the agent sets it in the object.
    let nfct_at = unsafe { addr_of!(NFCT_AT).read_volatile() };
    let (Some(view), Some(work)) = (maps::view(), Work::of_this_processor()) else {
        return Found::Nothing as u32;
    };
    work.reference.set(0);
    if nfct_at == 0 || view.entry_at == 0 {
        return Found::Nothing as u32;
    }
    // SAFETY: the helper checks the address, and fills the memory whole or with zeros.
    unsafe {
        let nfct = context.cast::<u8>().add(nfct_at as usize);
        bpf_probe_read_kernel(work.reference.as_ptr().cast(), 8, nfct.cast());
    }
    let Some(address) = Reference(*work.reference.get()).address() else {
        return Found::Nothing as u32;
    };
    let from = address + u64::from(view.entry_at);
    let to = work.entry.as_ptr();
    // SAFETY: as above.
    let failed =
        unsafe { bpf_probe_read_kernel(to.cast(), size_of::<Entry>() as u32, from as *const _) };
    if failed != 0 {
        return Found::Unreadable as u32;
    }
    compare_entry(work) as u32
}

/// As `read_entry`, of `TEST_ENTRY`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn read_test_entry() -> u32 {
    let (Some(test), Some(work)) = (TEST_ENTRY.get_ptr(0), Work::of_this_processor()) else {
        return Found::Nothing as u32;
    };
    let to = work.entry.as_ptr();
    // SAFETY: elements of array maps; every bit pattern is an Entry.
    unsafe {
        work.reference.set((*test).reference);
        let from = addr_of!((*test).entry);
        bpf_probe_read_kernel(to.cast(), size_of::<Entry>() as u32, from.cast());
    }
    compare_entry(work) as u32
}

/// Compares the entry with the packet, and sets what the client asked for.
#[inline(always)]
fn compare_entry(work: &Work) -> Found {
    let reference = Reference(*work.reference.get());
    if reference.address().is_none() {
        return Found::Nothing;
    }
    match work.entry.get().read(reference, work.packet.get()) {
        Record::None => Found::Nothing,
        Record::Unreadable => Found::Unreadable,
        Record::Reply => Found::Reply,
        Record::Direct(meant) => {
            work.meant.set(meant);
            Found::Direct
        }
        Record::Translated(meant) => {
            work.meant.set(meant);
            Found::Conntrack
        }
    }
}
