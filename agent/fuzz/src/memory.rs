//! How much memory a check holds at most: the allocator of the test binary counts for each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a count.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// Octets that this thread has allocated and not freed; below 0 if it frees what others have
    /// allocated.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// The most of them since the last look.
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Octets that this thread has allocated and not freed.
pub fn held() -> isize {
    HELD.get()
}

/// Octets that `work` holds at most, beside what was held before it.
pub fn peak_of(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    work();
    usize::try_from(PEAK.get() - before).unwrap_or_default()
}

fn count(change: isize) {
    // A thread that ends has no counters any more.
    let _ = HELD.try_with(|held| {
        held.set(held.get().wrapping_add(change));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call goes to the system's allocator as it is; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
