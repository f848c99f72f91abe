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
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let features = feature_count(&socket, interface)?;
    let names = names(&socket, interface, features)?;
    let active = active(&socket, interface, features)?;
    let is_active = |feature: usize| active[feature / 32] >> (feature % 32) & 1 != 0;
    let mut names = names.iter().enumerate();
    Ok(names.any(|(feature, name)| FEATURES.contains(&&name[..]) && is_active(feature)))
}

/// The number of features that the kernel knows. `struct ethtool_sset_info` of `linux/ethtool.h`: after the command a
/// reserved word and a mask of 64 bits, which selects the sets; then the size of each selected set.
fn feature_count(socket: &OwnedFd, interface: &str) -> io::Result<u32> {
    let mask = (1_u64 << ETH_SS_FEATURES).to_ne_bytes();
    let [low, high] =
        [0, 4].map(|at| u32::from_ne_bytes([mask[at], mask[at + 1], mask[at + 2], mask[at + 3]]));
    let sizes = ask(socket, interface, &[ETHTOOL_GSSET_INFO, 0, low, high], 1)?;
    Ok(sizes[0])
}

/// Names of the features. `struct ethtool_gstrings` of `linux/ethtool.h`: `ETH_GSTRING_LEN` octets for each.
fn names(socket: &OwnedFd, interface: &str, features: u32) -> io::Result<Vec<Vec<u8>>> {
    let room = features as usize * ETH_GSTRING_LEN / 4;
    let words = ask(socket, interface, &[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, features], room)?;
    let octets: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let names = octets.chunks(ETH_GSTRING_LEN);
    let without_padding = names.map(|name| name.iter().copied().take_while(|octet| *octet != 0).collect());
    Ok(without_padding.collect())
}

/// Bits of the active features. `struct ethtool_gfeatures` of `linux/ethtool.h`: four words for each 32 features, of which
/// the third has these bits.
fn active(socket: &OwnedFd, interface: &str, features: u32) -> io::Result<Vec<u32>> {
    let blocks = features.div_ceil(32);
    let words = ask(socket, interface, &[ETHTOOL_GFEATURES, blocks], blocks as usize * 4)?;
    Ok(words.chunks(4).map(|block| block[2]).collect())
}

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Runs an ethtool command. Returns the `room` words behind its header, as the kernel filled them.
fn ask(socket: &OwnedFd, interface: &str, header: &[u32], room: usize) -> io::Result<Vec<u32>> {
    let mut words = [header, &vec![0; room]].concat();
    let name = CString::new(interface)?;
    // SAFETY: an all-zero ifreq is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the kernel writes as many words as the callers made room for: for GSSET_INFO one for the selected set, for
    // GFEATURES four for each block of the header; for GSTRINGS the kernel's own count, which GSSET_INFO returned and which
    // is constant.
    if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(words.split_off(header.len()))
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
