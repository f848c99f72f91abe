//! Packets whose network header lies in the linear part of the frame, directly behind an Ethernet
//! header: the programs read them without calling a helper. Of any other packet they find nothing
//! here.

use aya_ebpf::bindings::{__sk_buff, xdp_md};
use epguard_common::Bytes;

const ETHERNET: usize = 14;

/// The linear part of a frame, from the network header on.
pub struct Linear {
    at: usize,
    end: usize,
    /// As it lies in memory.
    ether_type: u16,
}

impl Linear {
    /// Of a TC program.
    #[inline(always)]
    pub fn from_context(context: *mut __sk_buff) -> Option<Self> {
        // SAFETY: fields of the program's own context.
        let (start, end, protocol, length) = unsafe {
            (
                (*context).data as usize,
                (*context).data_end as usize,
                (*context).protocol as u16,
                (*context).len,
            )
        };
        if start + ETHERNET > end {
            return None;
        }
        // SAFETY: inside of the frame.
        let (ether_type, first, v4_length, v6_length) = unsafe {
            (
                half(start + 12),
                octet(start),
                half(start + 2),
                half(start + 4),
            )
        };
        if ether_type != protocol {
            return None;
        }
        // A device without link-layer headers: the packet begins at the start, and its addresses
        // may look like an EtherType.
        let seems_bare = match first >> 4 {
            4 => u32::from(u16::from_be(v4_length)) <= length,
            6 => u32::from(u16::from_be(v6_length)) + 40 <= length,
            _ => false,
        };
        let at = start + ETHERNET;
        (!seems_bare).then_some(Self {
            at,
            end,
            ether_type,
        })
    }

    /// Of an XDP program, where each frame has an Ethernet header.
    #[inline(always)]
    pub fn of_xdp(context: *mut xdp_md) -> Option<Self> {
        // SAFETY: fields of the program's own context.
        let (start, end) = unsafe { ((*context).data as usize, (*context).data_end as usize) };
        let at = start + ETHERNET;
        if at > end {
            return None;
        }
        // SAFETY: inside of the frame.
        let ether_type = unsafe { half(start + 12) };
        Some(Self {
            at,
            end,
            ether_type,
        })
    }

    /// What the network header is, host order.
    #[inline(always)]
    pub fn ether_type(&self) -> u16 {
        u16::from_be(self.ether_type)
    }
}

impl Bytes for Linear {
    #[inline(always)]
    fn read<const N: usize>(&self, offset: u32) -> Option<[u8; N]> {
        self.load(offset)
    }

    /// IP headers are aligned to words behind an Ethernet header, where it matters.
    #[inline(always)]
    fn words<const N: usize>(&self, offset: u32) -> Option<[u32; N]> {
        self.load(offset)
    }
}

impl Linear {
    /// `T` is an array of integers: every bit pattern is one.
    #[inline(always)]
    fn load<T: Copy>(&self, offset: u32) -> Option<T> {
        let at = self.at + offset as usize;
        // SAFETY: inside of the frame, as compared.
        (at + size_of::<T>() <= self.end).then(|| unsafe { *(at as *const T) })
    }
}

/// The link-layer address that a frame of an XDP program goes to.
#[inline(always)]
pub fn addressed(context: *mut xdp_md) -> Option<[u8; 6]> {
    // SAFETY: fields of the program's own context.
    let (start, end) = unsafe { ((*context).data as usize, (*context).data_end as usize) };
    // SAFETY: inside of the frame.
    (start + ETHERNET <= end).then(|| unsafe { *(start as *const [u8; 6]) })
}

/// An octet of the frame.
///
/// SAFETY: the caller has compared its address with the end of the frame.
#[inline(always)]
unsafe fn octet(at: usize) -> u8 {
    // SAFETY: the caller's.
    unsafe { *(at as *const u8) }
}

/// Two octets, as `octet`.
#[inline(always)]
unsafe fn half(at: usize) -> u16 {
    // SAFETY: the caller's.
    unsafe { *(at as *const u16) }
}
