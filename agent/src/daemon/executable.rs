//! The memory of the executable itself.

use libc::{MADV_DONTNEED, PF_W, PT_LOAD, c_int, c_void, dl_phdr_info, madvise};
use std::{ptr, slice};

const PAGE: usize = 4096;

/// Gives back the pages of the executable: most of them were needed for the start alone. The kernel maps those again that are used
/// again, from its cache.
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
        // SAFETY: no code writes to these pages, so they are as in the file, from which the kernel maps them again.
        unsafe { madvise(begin as *mut c_void, end - begin, MADV_DONTNEED) };
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssFile:")).unwrap();
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
