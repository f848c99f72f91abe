//! The system's allocator, with a count of live octets.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, with a count.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Octets that are allocated and not freed, without what the allocator adds to each.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// The most of them since the last [`restart_peak`].
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Octets that are allocated now.
pub fn live() -> usize {
    LIVE.load(Relaxed)
}

/// The most octets that were allocated at once since the last [`restart_peak`].
pub fn peak() -> usize {
    PEAK.load(Relaxed)
}

/// Begins a new peak at what is allocated now.
pub fn restart_peak() {
    PEAK.store(live(), Relaxed);
}

fn grow(octets: usize) {
    let now = LIVE.fetch_add(octets, Relaxed) + octets;
    PEAK.fetch_max(now, Relaxed);
}

fn shrink(octets: usize) {
    LIVE.fetch_sub(octets, Relaxed);
}

// SAFETY: every call goes to the system's allocator as it is; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size);
        shrink(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
