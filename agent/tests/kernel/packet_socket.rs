//! A socket that sends frames whose headers do not lie in the linear part of the skb.

use nix::libc;
use nix::net::if_::if_nametoindex;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Frames of at least a page get pages of their own behind the part that the sender calls the headers.
pub const PAGED: usize = 4_500;

const PACKET_VNET_HDR: libc::c_int = 15;

/// `struct virtio_net_hdr`.
#[repr(C)]
#[derive(Default)]
struct Header {
    flags: u8,
    gso_type: u8,
    linear_length: u16,
    gso_size: u16,
    sum_at: u16,
    sum_offset: u16,
}

/// A packet socket of an interface.
pub struct Socket(OwnedFd);

impl Socket {
    pub fn open(device: &str) -> Self {
        // SAFETY: no pointers.
        let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        assert!(raw >= 0, "{}", io::Error::last_os_error());
        // SAFETY: just made, and without another owner.
        let socket = unsafe { OwnedFd::from_raw_fd(raw) };
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
        let set =
            unsafe { libc::setsockopt(raw, libc::SOL_PACKET, PACKET_VNET_HDR, (&raw const on).cast(), 4) };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
        Self(socket)
    }

    /// Sends a frame with `linear` octets in the linear part.
    pub fn send(&self, frame: &[u8], linear: u16) {
        let header = Header { linear_length: linear, ..Header::default() };
        assert!(self.write(&header, frame), "{}", io::Error::last_os_error());
    }

    /// Sends a frame of UDP or TCP in IPv4 for the device to cut. False: the kernel finds that it is none.
    pub fn send_uncut(&self, frame: &[u8], transport_at: u16, is_tcp: bool) -> bool {
        const NEEDS_SUM: u8 = 1;
        let header = Header {
            flags: NEEDS_SUM,
            gso_type: if is_tcp { 1 } else { 5 },
            linear_length: transport_at + if is_tcp { 20 } else { 8 },
            gso_size: 1_000,
            sum_at: transport_at,
            sum_offset: if is_tcp { 16 } else { 6 },
        };
        self.write(&header, frame)
    }

    fn write(&self, header: &Header, frame: &[u8]) -> bool {
        let part =
            |start: *const libc::c_void, length| libc::iovec { iov_base: start.cast_mut(), iov_len: length };
        let parts = [
            part((&raw const *header).cast(), size_of::<Header>()),
            part(frame.as_ptr().cast(), frame.len()),
        ];
        // SAFETY: the two parts live until the call returns, which only reads them.
        let written = unsafe { libc::writev(self.0.as_raw_fd(), parts.as_ptr(), 2) };
        written > 0
    }
}
