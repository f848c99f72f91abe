//! The properties of an interface that matter to XDP, where a program runs there, and whether the
//! device takes VLAN tags off before the program sees the frame (`ethtool -k`, over ioctl(2)).

use crate::node::netlink::route::ask;
use crate::node::netlink::{Interface, only};
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use rtnetlink::packet_core::NLM_F_ACK;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkLayerType, LinkMessage, LinkXdp};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Where an XDP program runs, by its name in the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum XdpMode {
    /// In the driver, on the receive ring, as epguard's own.
    Driver,
    /// In the network stack, on an skb that is made already.
    Generic,
}

/// An interface in its present state.
#[derive(Debug, Default)]
pub struct Device {
    /// Its kind and its master.
    pub interface: Interface,
    /// Its own link-layer address, if it is an Ethernet device.
    pub mac: Option<[u8; 6]>,
    /// Ids of the XDP programs that are there, with their mode; in the device itself: none.
    pub programs: Vec<(Option<XdpMode>, u32)>,
}

impl Device {
    /// Reads the interface from the kernel. `ENODEV` if it is gone.
    pub fn look(ifindex: u32) -> io::Result<Self> {
        let mut request = LinkMessage::default();
        request.header.index = ifindex;
        let answers = ask(&RouteNetlinkMessage::GetLink(request), NLM_F_ACK)?;
        let link = answers
            .into_iter()
            .find_map(only!(RouteNetlinkMessage::NewLink(link) => link));
        link.map(|link| Self::from_link(&link))
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// The program that runs in this mode.
    pub fn program(&self, mode: XdpMode) -> Option<u32> {
        let mut programs = self.programs.iter();
        programs
            .find(|(runs, _)| *runs == Some(mode))
            .map(|(_, id)| *id)
    }

    fn from_link(link: &LinkMessage) -> Self {
        let mut device = Self {
            interface: Interface::from(link.clone()),
            ..Self::default()
        };
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::Address(address)
                    if link.header.link_layer_type == LinkLayerType::Ether =>
                {
                    device.mac = address.as_slice().try_into().ok();
                }
                LinkAttribute::Xdp(said) => {
                    device.programs = said.iter().filter_map(program).collect();
                }
                _ => {}
            }
        }
        device
    }
}

fn program(said: &LinkXdp) -> Option<(Option<XdpMode>, u32)> {
    match said {
        LinkXdp::DrvProgId(id) => Some((Some(XdpMode::Driver), *id)),
        LinkXdp::SkbProgId(id) => Some((Some(XdpMode::Generic), *id)),
        LinkXdp::HwProgId(id) => Some((None, *id)),
        _ => None,
    }
}

/// True if the device takes VLAN tags off before XDP, or does not report it.
pub fn hides_tags(interface: &str) -> bool {
    takes_tags_off(interface).unwrap_or(true)
}

/// `rx-vlan-offload` and its 802.1ad equivalent, by the kernel's names.
const FEATURES: [&[u8]; 2] = [b"rx-vlan-hw-parse\0", b"rx-vlan-stag-hw-parse\0"];

fn takes_tags_off(interface: &str) -> io::Result<bool> {
    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let features = feature_count(&socket, interface)?;
    let names = names(&socket, interface, features)?;
    let active = active(&socket, interface, features)?;
    let is_active = |feature: usize| active[feature / 32] >> (feature % 32) & 1 != 0;
    let mut names = names.chunks(ETH_GSTRING_LEN).enumerate();
    let takes_tags = |name: &[u8]| FEATURES.iter().any(|feature| name.starts_with(feature));
    Ok(names.any(|(feature, name)| takes_tags(name) && is_active(feature)))
}

/// The number of features that the kernel knows. `struct ethtool_sset_info` of `linux/ethtool.h`:
/// after the command a reserved word and a mask of 64 bits, which selects the sets; then the size
/// of each selected set.
fn feature_count(socket: &OwnedFd, interface: &str) -> io::Result<u32> {
    let mask = (1_u64 << ETH_SS_FEATURES).to_ne_bytes();
    let [low, high] =
        [0, 4].map(|at| u32::from_ne_bytes([mask[at], mask[at + 1], mask[at + 2], mask[at + 3]]));
    let sizes = ethtool(socket, interface, &[ETHTOOL_GSSET_INFO, 0, low, high], 1)?;
    Ok(sizes[0])
}

/// Names of the features. `struct ethtool_gstrings` of `linux/ethtool.h`: `ETH_GSTRING_LEN` octets
/// for each, padded with zeros.
fn names(socket: &OwnedFd, interface: &str, features: u32) -> io::Result<Vec<u8>> {
    let room = features as usize * ETH_GSTRING_LEN / 4;
    let words = ethtool(
        socket,
        interface,
        &[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, features],
        room,
    )?;
    Ok(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
}

/// Bits of the active features. `struct ethtool_gfeatures` of `linux/ethtool.h`: four words for
/// each 32 features, of which the third has these bits.
fn active(socket: &OwnedFd, interface: &str, features: u32) -> io::Result<Vec<u32>> {
    let blocks = features.div_ceil(32);
    let words = ethtool(
        socket,
        interface,
        &[ETHTOOL_GFEATURES, blocks],
        blocks as usize * 4,
    )?;
    Ok(words.chunks(4).map(|block| block[2]).collect())
}

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Runs an ethtool command. Returns the `room` words behind its header, as the kernel filled them.
fn ethtool(socket: &OwnedFd, interface: &str, header: &[u32], room: usize) -> io::Result<Vec<u32>> {
    let mut words = [header, &vec![0; room]].concat();
    let name = CString::new(interface)?;
    // SAFETY: an all-zero ifreq is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the kernel writes as many words as the callers made room for: for GSSET_INFO one for
    // the selected set, for GFEATURES four for each block of the header; for GSTRINGS the kernel's
    // own count, which GSSET_INFO returned and which is constant.
    if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(words.split_off(header.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_message_yields_its_address_and_programs_by_mode() {
        let mut link = LinkMessage::default();
        link.header.link_layer_type = LinkLayerType::Ether;
        let xdp = vec![
            LinkXdp::ProgId(9),
            LinkXdp::SkbProgId(7),
            LinkXdp::DrvProgId(8),
        ];
        link.attributes = vec![
            LinkAttribute::Address(vec![2, 0, 0, 0, 0, 1]),
            LinkAttribute::Xdp(xdp),
        ];
        let device = Device::from_link(&link);
        assert_eq!(device.mac, Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(device.program(XdpMode::Driver), Some(8));
        assert_eq!(device.program(XdpMode::Generic), Some(7));
        link.header.link_layer_type = LinkLayerType::Infiniband;
        assert_eq!(Device::from_link(&link).mac, None, "no Ethernet");
    }

    #[test]
    fn loopback_keeps_vlan_tags_and_a_missing_device_is_an_error() {
        assert!(!takes_tags_off("lo").unwrap());
        assert!(takes_tags_off("no-such-device").is_err());
        assert!(hides_tags("no-such-device"));
        let error = Device::look(u32::MAX >> 1).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
