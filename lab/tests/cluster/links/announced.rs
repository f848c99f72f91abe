//! The kernel's announcement of a new interface: the start of the measured times. The time that a loaded machine needs to
//! make an interface is not the agent's.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Instant;

use epguard_lab::net::NetNs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

/// A subscription to links.
pub(crate) struct Announcements(OwnedFd);

impl Announcements {
    pub(crate) fn of(netns: &NetNs) -> Self {
        let open = || {
            let flags = SockFlag::SOCK_CLOEXEC;
            let kind = (AddressFamily::Netlink, SockType::Raw, SockProtocol::NetlinkRoute);
            let socket = socket(kind.0, kind.1, flags, kind.2).unwrap();
            bind(socket.as_raw_fd(), &NetlinkAddr::new(0, RTMGRP_LINK)).unwrap();
            setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(60)).unwrap();
            socket
        };
        Self(netns.run(open).unwrap())
    }

    /// Waits until the link is announced, after its deletion if that is announced first.
    pub(crate) fn wait(&self, link: &str, deleted: bool) -> Instant {
        let mut gone = !deleted;
        let name: Vec<u8> = link.bytes().chain([0]).collect();
        let mut datagram = vec![0; 1 << 16];
        loop {
            let length = recv(self.0.as_raw_fd(), &mut datagram, MsgFlags::empty()).unwrap();
            let now = Instant::now();
            let mut rest = &datagram[..length];
            while let Some((header, _)) = rest.split_at_checked(16) {
                let length = u32::from_ne_bytes(header[..4].try_into().unwrap()) as usize;
                let kind = u16::from_ne_bytes(header[4..6].try_into().unwrap());
                let names = rest[..length].windows(name.len()).any(|part| part == name);
                match kind {
                    RTM_DELLINK if names => gone = true,
                    RTM_NEWLINK if names && gone => return now,
                    _ => {}
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

/// linux/rtnetlink.h
const RTMGRP_LINK: u32 = 1;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
