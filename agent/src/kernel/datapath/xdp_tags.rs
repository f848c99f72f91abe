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
    let ask = |header: &[u32], room: u32| ask(&socket, interface, header, room as usize);
    // `struct ethtool_sset_info`: a mask of 64 bits selects the sets, and the first word behind it is the count of one.
    let sets = if cfg!(target_endian = "little") {
        [1 << ETH_SS_FEATURES, 0]
    } else {
        [0, 1 << ETH_SS_FEATURES]
    };
    let count = ask(&[ETHTOOL_GSSET_INFO, 0, sets[0], sets[1]], 2)?[0];
    // `struct ethtool_gstrings`: 32 octets for each name.
    let names = ask(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count], count * 8)?;
    // `struct ethtool_gfeatures`: four words for each 32 features. The third has the active ones.
    let blocks = count.div_ceil(32);
    let active = ask(&[ETHTOOL_GFEATURES, blocks], blocks * 4)?;
    let is_active = |feature: usize| active[feature / 32 * 4 + 2] >> (feature % 32) & 1 != 0;
    let octets: Vec<u8> = names.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let names = octets
        .chunks(32)
        .map(|name| name.split(|octet| *octet == 0).next());
    Ok(names
        .enumerate()
        .any(|(feature, name)| name.is_some_and(|name| FEATURES.contains(&name)) && is_active(feature)))
}

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETH_SS_FEATURES: u32 = 4;
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
    // SAFETY: the kernel reads and writes as many words as the header says, which is what the callers made room for.
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
