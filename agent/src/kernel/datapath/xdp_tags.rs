//! Whether a device takes VLAN tags off before an XDP program sees the frame (`ethtool -k`), over ioctl(2).

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// True if the device takes VLAN tags off before XDP, or does not report it.
pub fn are_hidden(interface: &str) -> bool {
    takes_tags_off(interface).unwrap_or(true)
}

/// `rx-vlan-offload` and its 802.1ad equivalent, by the kernel's names.
const FEATURES: [&[u8]; 2] = [b"rx-vlan-hw-parse", b"rx-vlan-stag-hw-parse"];

fn takes_tags_off(interface: &str) -> io::Result<bool> {
    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let mut count = SetInfo {
        command: ETHTOOL_GSSET_INFO,
        reserved: 0,
        sets: 1 << ETH_SS_FEATURES,
        count: 0,
        unasked: 0,
    };
    ioctl(&socket, interface, std::ptr::from_mut(&mut count).cast())?;
    let features = count.count as usize;
    let names = names(&socket, interface, features)?;
    let active = active(&socket, interface, features)?;
    let is_active = |index: usize| {
        active
            .get(index / 32)
            .is_some_and(|word| word >> (index % 32) & 1 != 0)
    };
    let mut indices = names.iter().enumerate().filter(|(_, name)| {
        let name = name.split(|octet| *octet == 0).next().unwrap_or_default();
        FEATURES.contains(&name)
    });
    Ok(indices.any(|(index, _)| is_active(index)))
}

/// Names of the features. The answer has 3 words of header, then 32 octets for each name.
fn names(socket: &OwnedFd, interface: &str, features: usize) -> io::Result<Vec<[u8; NAME]>> {
    let mut words = vec![0_u32; 3 + features * NAME / 4];
    words[0] = ETHTOOL_GSTRINGS;
    words[1] = ETH_SS_FEATURES;
    words[2] = u32::try_from(features).map_err(io::Error::other)?;
    ioctl(socket, interface, words.as_mut_ptr().cast())?;
    let octets: Vec<u8> = words[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(octets.as_chunks().0.to_vec())
}

/// Bits of the active features. The answer has 2 words of header, then 4 words for each 32 features: the third has
/// these bits.
fn active(socket: &OwnedFd, interface: &str, features: usize) -> io::Result<Vec<u32>> {
    let blocks = features.div_ceil(32);
    let mut words = vec![0_u32; 2 + blocks * 4];
    words[0] = ETHTOOL_GFEATURES;
    words[1] = u32::try_from(blocks).map_err(io::Error::other)?;
    ioctl(socket, interface, words.as_mut_ptr().cast())?;
    Ok(words[2..].chunks(4).map(|block| block[2]).collect())
}

/// `struct ethtool_sset_info` of `linux/ethtool.h` with room for one set.
#[repr(C)]
struct SetInfo {
    command: u32,
    reserved: u32,
    sets: u64,
    count: u32,
    unasked: u32,
}

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETH_SS_FEATURES: u32 = 4;
/// `ETH_GSTRING_LEN`.
const NAME: usize = 32;
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Runs an ethtool command: `data` begins with the command, and has its layout with room for the answer.
fn ioctl(socket: &OwnedFd, interface: &str, data: *mut libc::c_char) -> io::Result<()> {
    let name = CString::new(interface)?;
    // SAFETY: an all-zero ifreq is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_data = data;
    // SAFETY: the kernel reads and writes as much behind `data` as its header says, which is what the callers made.
    if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_keeps_vlan_tags_and_a_missing_device_is_an_error() {
        assert!(!takes_tags_off("lo").unwrap());
        assert!(takes_tags_off("no-such-device").is_err());
        assert!(are_hidden("no-such-device"));
    }
}
