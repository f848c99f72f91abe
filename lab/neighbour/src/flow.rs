//! Source and destination of TCP and UDP packets without extension headers.

use aya_ebpf::programs::TcContext;

/// Length of the link-layer header.
pub const ETHERNET: usize = 14;
const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Source and destination endpoint. Words are copied without a call: Cilium's programs have no
/// subprograms.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Flow {
    /// In network order, IPv4 as v4-mapped.
    pub src: [u32; 4],
    /// The destination.
    pub to: Endpoint,
}

/// An address and a port.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Endpoint {
    /// In network order, IPv4 as v4-mapped.
    pub ip: [u32; 4],
    /// In network order.
    pub port: u16,
    pub reserved: u16,
}

impl Endpoint {
    /// Whether it has an IPv4 address.
    #[inline(always)]
    pub fn is_mapped(&self) -> bool {
        is_mapped(&self.ip)
    }
}

/// The flow of a packet. None unless it is TCP or UDP, and for later fragments.
#[inline(always)]
pub fn parse(ctx: &TcContext) -> Option<Flow> {
    match u16::from_be(ctx.skb.protocol() as u16) {
        ETH_P_IP => ipv4(ctx),
        ETH_P_IPV6 => ipv6(ctx),
        _ => None,
    }
}

#[inline(always)]
fn ipv4(ctx: &TcContext) -> Option<Flow> {
    let length = usize::from(ctx.load::<u8>(ETHERNET).ok()? & 0x0f) * 4;
    let fragment = u16::from_be(ctx.load(ETHERNET + 6).ok()?) & 0x1fff;
    let protocol: u8 = ctx.load(ETHERNET + 9).ok()?;
    if fragment != 0 || !has_ports(protocol) {
        return None;
    }
    Some(Flow {
        src: mapped(ctx.load(ETHERNET + 12).ok()?),
        to: Endpoint {
            ip: mapped(ctx.load(ETHERNET + 16).ok()?),
            port: ctx.load(ETHERNET + length + 2).ok()?,
            reserved: 0,
        },
    })
}

#[inline(always)]
fn ipv6(ctx: &TcContext) -> Option<Flow> {
    let protocol: u8 = ctx.load(ETHERNET + 6).ok()?;
    if !has_ports(protocol) {
        return None;
    }
    Some(Flow {
        src: address(ctx, ETHERNET + 8)?,
        to: Endpoint {
            ip: address(ctx, ETHERNET + 24)?,
            port: ctx.load(ETHERNET + 40 + 2).ok()?,
            reserved: 0,
        },
    })
}

#[inline(always)]
fn address(ctx: &TcContext, at: usize) -> Option<[u32; 4]> {
    Some([
        ctx.load(at).ok()?,
        ctx.load(at + 4).ok()?,
        ctx.load(at + 8).ok()?,
        ctx.load(at + 12).ok()?,
    ])
}

#[inline(always)]
fn has_ports(protocol: u8) -> bool {
    protocol == TCP || protocol == UDP
}

/// Model `is_v4_in_v6()`.
#[inline(always)]
pub fn is_mapped(ip: &[u32; 4]) -> bool {
    ip[0] == 0 && ip[1] == 0 && ip[2] == 0xffff_u32.to_be()
}

/// In network order.
#[inline(always)]
pub fn mapped(ip: u32) -> [u32; 4] {
    [0, 0, 0xffff_u32.to_be(), ip]
}
