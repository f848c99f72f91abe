//! A load balancer per packet: programs at the node's interfaces of pods, which translate packets
//! to cluster IPs and the replies to them, as Cilium does for pods that its load balancer at
//! sockets does not serve.
//!
//! The model is `bpf/bpf_lxc.c`, `bpf/lib/lb.h` and `bpf/lib/conntrack.h` of Cilium as of commit
//! 3ab8efdd3b3f (between 1.20 and 1.21); each item names its function there. The Services are those
//! of [`socket_lb`](crate::socket_lb). Left out, since no story needs them: what `socket_lb` leaves
//! out, session affinity, pods that reach themselves through a Service, fragments, ICMP, and
//! delivery without the node's stack.
//!
//! It differs in one thing, as `socket_lb`: backends take turns instead of being drawn
//! (`lb4_select_backend_id()`).

pub mod connections;
mod translate;

use crate::flags::Fields;
use crate::flow::{self, Endpoint};
use aya_ebpf::bindings::{TC_ACT_OK, TC_ACT_SHOT};
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;
use connections::{EGRESS, INGRESS, track};

/// A TCP or UDP packet.
pub struct Packet {
    src: Endpoint,
    dst: Endpoint,
    protocol: u8,
    /// Where its TCP or UDP header begins.
    transport_at: usize,
}

/// TC ingress of pod interfaces: model `cil_from_container()`, `__per_packet_lb_svc_xlate_4()` and
/// `handle_ipv4_from_lxc()`.
#[classifier]
pub fn lb_from_container(ctx: TcContext) -> i32 {
    Fields::of(&ctx).clear_meta();
    let Some(mut packet) = parse(&ctx) else {
        return TC_ACT_OK;
    };
    let mut service = 0;
    if let Some(entry) = translate::service(&packet) {
        let Some(backend) = translate::backend(&packet, entry) else {
            return TC_ACT_SHOT;
        };
        if translate::set_destination(&ctx, &packet, &backend).is_err() {
            return TC_ACT_SHOT;
        }
        packet.dst = backend;
        // SAFETY: an entry that stays readable for the run of the program.
        service = unsafe { (*entry).rev_nat_index() };
    }
    track(&packet, EGRESS, service);
    TC_ACT_OK
}

/// TC egress of pod interfaces: model `cil_to_container()` and `ipv4_policy()`.
#[classifier]
pub fn lb_to_container(ctx: TcContext) -> i32 {
    Fields::of(&ctx).clear_meta();
    let Some(packet) = parse(&ctx) else {
        return TC_ACT_OK;
    };
    let service = track(&packet, INGRESS, 0).and_then(|number| translate::reverse(&packet, number));
    if let Some(vip) = service
        && translate::set_source(&ctx, &packet, &vip).is_err()
    {
        return TC_ACT_SHOT;
    }
    TC_ACT_OK
}

/// The packet; none unless it is TCP or UDP, and for later fragments.
#[inline(always)]
pub fn parse(ctx: &TcContext) -> Option<Packet> {
    let to = flow::parse(ctx)?;
    let (protocol_at, transport_at) = if to.to.is_mapped() {
        let words: u8 = ctx.load(flow::ETHERNET).ok()?;
        (
            flow::ETHERNET + 9,
            flow::ETHERNET + usize::from(words & 0x0f) * 4,
        )
    } else {
        (flow::ETHERNET + 6, flow::ETHERNET + 40)
    };
    Some(Packet {
        src: Endpoint {
            ip: to.src,
            port: ctx.load(transport_at).ok()?,
            reserved: 0,
        },
        dst: to.to,
        protocol: ctx.load(protocol_at).ok()?,
        transport_at,
    })
}
