//! Frames of VLANs at the interface below them: with any tag they are not of the node's own network.

use super::node::{Node, ifindex, mac};
use super::orphan_ip::{X, denied_while, vacate};
use epguard::kernel::datapath::{Hooks, Xdp};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

#[test]
#[ignore = "needs root: BPF and network namespaces"]
fn frames_of_a_vlan_are_not_judged_at_the_interface_below_it() {
    let node = Node::new();
    let mut datapath = node.load(Hooks::Auto).with_xdp(Xdp::Driver).unwrap();
    let _writer = vacate(&node, &mut datapath);
    let socket = node.in_peer(packet_socket).unwrap();
    let send = |tag: &[u8]| {
        let frame = frame(tag);
        denied_while(&node, 50, || node.in_peer(|| send(&socket, &frame)))
    };
    let (untagged, tagged) = (&[][..], &[0x81, 0, 0, 5][..]);
    datapath.hook(ifindex("pod"), "pod").unwrap();
    assert_eq!((send(untagged), send(tagged)), (50, 0), "TC");
    datapath.hook_xdp(ifindex("pod"), "pod").unwrap();
    assert_eq!((send(untagged), send(tagged)), (50, 0), "XDP, then TC");
}

/// A datagram to X, by way of the node.
fn frame(tag: &[u8]) -> Vec<u8> {
    let to: Vec<u8> = mac("pod").split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    let mut frame = [&to, &[2, 0, 0, 0, 0, 9][..], tag, &[8, 0]].concat();
    frame.extend([0x45, 0, 0, 36, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 2]);
    frame.extend(X.octets());
    frame.extend([0x80, 0, 0, 9, 0, 16, 0, 0]);
    frame.extend(b"datagram");
    frame
}

fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn send(socket: &OwnedFd, frame: &[u8]) {
    // SAFETY: an all-zero sockaddr_ll is a valid one.
    let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    to.sll_family = u16::try_from(libc::AF_PACKET).unwrap();
    to.sll_ifindex = ifindex("eth0").cast_signed();
    to.sll_halen = 6;
    let length = u32::try_from(size_of_val(&to)).unwrap();
    // SAFETY: the frame's own octets, and an address of the length that stands beside it.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            0,
            (&raw const to).cast(),
            length,
        )
    };
    assert_eq!(sent, frame.len().cast_signed(), "{}", io::Error::last_os_error());
}
