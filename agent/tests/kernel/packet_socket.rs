//! A socket that sends frames whose headers do not lie in the linear part of the skb.

use nix::libc;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::fs::File;
use std::io::{self, IoSlice, Write as _};
use std::os::fd::AsRawFd as _;

/// Frames of at least a page get pages of their own behind the part that the sender calls the
/// headers.
pub const PAGED: usize = 4_500;

const PACKET_VNET_HDR: libc::c_int = 15;

pub struct Socket(File);

impl Socket {
    pub fn open(device: &str) -> Self {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket =
            socket(AddressFamily::Packet, SockType::Raw, flags, None).expect("it needs root");
        let raw = socket.as_raw_fd();
        // SAFETY: an all-zero sockaddr_ll is a valid one.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        to.sll_family = u16::try_from(libc::AF_PACKET).expect("a family");
        to.sll_ifindex = if_nametoindex(device).expect("an interface").cast_signed();
        let length = u32::try_from(size_of_val(&to)).expect("a length");
        // SAFETY: an address of the length that stands beside it.
        let bound = unsafe { libc::bind(raw, (&raw const to).cast(), length) };
        assert_eq!(bound, 0, "{}", io::Error::last_os_error());
        let on: libc::c_int = 1;
        // SAFETY: an option of the length that stands beside it.
        let set = unsafe {
            libc::setsockopt(
                raw,
                libc::SOL_PACKET,
                PACKET_VNET_HDR,
                (&raw const on).cast(),
                4,
            )
        };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
        Self(socket.into())
    }

    /// Sends a frame with `linear` octets in the linear part.
    pub fn send(&self, frame: &[u8], linear: u16) {
        assert!(
            self.write([0; 2], [linear, 0, 0, 0], frame),
            "{}",
            io::Error::last_os_error()
        );
    }

    /// Sends a frame of UDP or TCP in IPv4 for the device to cut. False: the kernel finds that it
    /// is none.
    pub fn send_uncut(&self, frame: &[u8], transport_at: u16, is_tcp: bool) -> bool {
        const NEEDS_SUM: u8 = 1;
        let (kind, length, sum_offset) = if is_tcp { (1, 20, 16) } else { (5, 8, 6) };
        self.write(
            [NEEDS_SUM, kind],
            [transport_at + length, 1_000, transport_at, sum_offset],
            frame,
        )
    }

    /// Sends a frame behind a `struct virtio_net_hdr`: flags and kind of segments; octets of the
    /// headers and of a segment, where the sum begins, and where it lies from there.
    fn write(&self, kind: [u8; 2], numbers: [u16; 4], frame: &[u8]) -> bool {
        let header = [&kind[..], &numbers.map(u16::to_ne_bytes).concat()].concat();
        let parts = [IoSlice::new(&header), IoSlice::new(frame)];
        (&self.0)
            .write_vectored(&parts)
            .is_ok_and(|written| written > 0)
    }
}
