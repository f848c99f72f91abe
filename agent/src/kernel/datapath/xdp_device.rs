//! The properties of an interface that matter to XDP, and where a program runs there.

use crate::node::netlink::Interface;
use crate::node::netlink::route::ask;
use rtnetlink::packet_core::NLM_F_ACK;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkLayerType, LinkMessage, LinkXdp};
use std::io;

/// Where an XDP program runs, by its name in the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum XdpMode {
    /// In the driver, on the receive ring.
    Driver,
    /// In the network stack, on an skb that is made already.
    Generic,
}

impl XdpMode {
    /// The flag of the mode: `XDP_FLAGS_DRV_MODE` or `XDP_FLAGS_SKB_MODE` of `linux/if_link.h`.
    pub(super) const fn flag(self) -> u32 {
        match self {
            Self::Driver => 1 << 2,
            Self::Generic => 1 << 1,
        }
    }
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
        let link = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link),
            _ => None,
        });
        link.map(|link| Self::read(&link)).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// Whether it is a port of a bond, a bridge or a VRF.
    pub fn is_port(&self) -> bool {
        self.interface.master.is_some_and(|master| master != 0)
    }

    /// The program that runs in this mode.
    pub fn program(&self, mode: XdpMode) -> Option<u32> {
        let mut programs = self.programs.iter();
        programs.find(|(runs, _)| *runs == Some(mode)).map(|(_, id)| *id)
    }

    fn read(link: &LinkMessage) -> Self {
        let mut device = Self { interface: Interface::from(link.clone()), ..Self::default() };
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::Address(address) if link.header.link_layer_type == LinkLayerType::Ether => {
                    device.mac = address.as_slice().try_into().ok();
                }
                LinkAttribute::Xdp(said) => device.programs = said.iter().filter_map(program).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_message_yields_its_address_and_programs_by_mode() {
        let mut link = LinkMessage::default();
        link.header.link_layer_type = LinkLayerType::Ether;
        let xdp = vec![LinkXdp::ProgId(9), LinkXdp::SkbProgId(7), LinkXdp::DrvProgId(8)];
        link.attributes = vec![LinkAttribute::Address(vec![2, 0, 0, 0, 0, 1]), LinkAttribute::Xdp(xdp)];
        let device = Device::read(&link);
        assert_eq!(device.mac, Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(device.program(XdpMode::Driver), Some(8));
        assert_eq!(device.program(XdpMode::Generic), Some(7));
    }

    #[test]
    fn a_device_other_than_ethernet_has_no_mac() {
        let mut link = LinkMessage::default();
        link.header.link_layer_type = LinkLayerType::Infiniband;
        link.attributes = vec![LinkAttribute::Address(vec![2, 0, 0, 0, 0, 1])];
        assert_eq!(Device::read(&link).mac, None);
    }

    #[test]
    fn a_missing_interface_is_an_error() {
        let error = Device::look(u32::MAX >> 1).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
