//! Returns memory that only the start, or a whole list, needed: of the C library's allocator, and
//! of the executable itself.

use nix::libc::{self, MADV_DONTNEED, PF_W, PT_LOAD, c_int, c_void, dl_phdr_info, madvise};
use std::{ptr, slice};

/// Blocks of so many octets have pages of their own, and so much may stay free at the end of the
/// heap.
#[cfg(target_env = "gnu")]
const LIMIT: i32 = 128 * 1024;

/// Makes the allocator return what a whole list took for a moment. glibc begins with these limits,
/// and raises both with each large block that is freed (mallopt(3)): the tables of a list would
/// then stay in the heap. All threads share one heap: what the watches allocate, the agent's loop
/// frees.
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

const PAGE: usize = 4096;

/// Gives back the pages of the executable: most of them were needed for the start alone. The kernel
/// maps those again that are used again, from its cache.
pub(super) fn return_pages() {
    // SAFETY: the callback takes what this function passes on, and its data is not used.
    unsafe { libc::dl_iterate_phdr(Some(return_those_of), ptr::null_mut()) };
}

/// Called for the executable first, and ends the iteration there.
///
/// # Safety
///
/// `info` is valid for the call.
unsafe extern "C" fn return_those_of(info: *mut dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the caller's, and the headers are as many as it says.
    let (start, headers) = unsafe {
        let info = &*info;
        let headers = slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info.dlpi_addr, headers)
    };
    for header in headers {
        if header.p_type != PT_LOAD || header.p_flags & PF_W != 0 {
            continue;
        }
        let Ok(begin) = usize::try_from(start + header.p_vaddr) else {
            continue;
        };
        let size = usize::try_from(header.p_memsz).unwrap_or(0);
        let end = (begin + size) / PAGE * PAGE;
        let begin = begin / PAGE * PAGE;
        // SAFETY: no code writes to these pages, so they are as in the file, from which the kernel
        // maps them again.
        unsafe { madvise(begin as *mut c_void, end - begin, MADV_DONTNEED) };
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("RssFile:"))
            .unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn a_program_that_gave_its_pages_back_goes_on_with_fewer() {
        let before = resident();
        return_pages();
        let after = resident();
        assert!(after < before, "{before} KB, then {after} KB");
    }
}
