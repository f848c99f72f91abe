//! The C library's allocator, set up to return memory.

/// Blocks of so many octets have pages of their own, and so much may stay free at the end of the heap.
#[cfg(target_env = "gnu")]
const LIMIT: i32 = 128 * 1024;

/// Makes the allocator return what a whole list took for a moment. glibc begins with these limits, and raises both with
/// each large block that is freed (mallopt(3)): the tables of a list would then stay in the heap. All threads share one heap: what
/// the watches allocate, the agent's loop frees.
#[cfg(target_env = "gnu")]
pub(super) fn return_memory() {
    // SAFETY: sets numbers of the allocator; an unknown one is ignored.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LIMIT);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LIMIT);
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Other allocators have no such limits: musl's gives large blocks pages of their own.
#[cfg(not(target_env = "gnu"))]
pub(super) const fn return_memory() {}
