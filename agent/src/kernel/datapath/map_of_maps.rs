//! Maps of maps: made, filled and emptied by place.

use super::bpf::{bpf, descriptor};
use aya_obj::generated::{bpf_cmd, bpf_map_type};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

/// Makes a map with places for other maps of the type, sizes and flags of `inner`.
pub fn make(name: &str, places: u32, inner: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attr {
        kind: u32,
        key_size: u32,
        value_size: u32,
        places: u32,
        flags: u32,
        inner: RawFd,
        numa_node: u32,
        name: [u8; 16],
    }
    let mut attr = Attr {
        kind: bpf_map_type::BPF_MAP_TYPE_ARRAY_OF_MAPS as u32,
        key_size: 4,
        value_size: 4,
        places,
        flags: 0,
        inner: inner.as_raw_fd(),
        numa_node: 0,
        name: [0; 16],
    };
    for (to, from) in attr.name.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: `attr` has no pointers; the command returns a new descriptor.
    unsafe { descriptor(bpf(bpf_cmd::BPF_MAP_CREATE, &mut attr)?) }
}

/// Puts a map into a place of a map of maps. `EINVAL`: it has another type, size or flags than the first one.
pub fn set(outer: BorrowedFd<'_>, place: u32, inner: BorrowedFd<'_>) -> io::Result<()> {
    let inner = inner.as_raw_fd();
    element(bpf_cmd::BPF_MAP_UPDATE_ELEM, outer, place, Some(&inner))
}

/// Empties a place of a map of maps.
pub fn remove(outer: BorrowedFd<'_>, place: u32) -> io::Result<()> {
    match element(bpf_cmd::BPF_MAP_DELETE_ELEM, outer, place, None) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn element(command: bpf_cmd, map: BorrowedFd<'_>, key: u32, value: Option<&RawFd>) -> io::Result<()> {
    #[repr(C)]
    struct Attr {
        map: u64,
        key: u64,
        value: u64,
        flags: u64,
    }
    let mut attr = Attr {
        map: u64::from(map.as_raw_fd().cast_unsigned()),
        key: std::ptr::from_ref(&key).addr() as u64,
        value: value.map_or(0, |value| std::ptr::from_ref(value).addr() as u64),
        flags: 0,
    };
    // SAFETY: keys and values of maps of maps have 4 octets, as `key` and `value` have, which live until the call returns.
    unsafe { bpf(command, &mut attr) }.map(drop)
}
