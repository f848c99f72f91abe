//! Finds the way of an answer, and of the replies of a redirected flow: `epguard_common` decides,
//! the node's routes answer.

use crate::frame::Origin as _;
use crate::maps;
use crate::route::{Exit, exit};
use crate::skb::Skb;
use crate::work::Work;
use aya_ebpf::bindings::__sk_buff;
use epguard_common::{Meant, Packet, Way, may_enter, way_out};

/// What looks for a way.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Seeker {
    /// An answer before DNAT.
    BeforeDnat = 0,
    /// An answer after DNAT, in the client's terms.
    AfterDnat = 1,
    /// An answer to a socket that a load balancer has connected: it knows the endpoint, as the
    /// packet does.
    Socket = 2,
    /// Replies of a redirected flow: conntrack has to translate them back.
    Replies = 3,
}

/// How a packet goes on. As a number, since a map holds it.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WayKind {
    /// Out of the interface where the packet enters.
    Back = 1,
    /// [`Way::Routed`].
    Routed = 2,
    /// [`Way::OnLink`].
    OnLink = 3,
    /// Into the stack, in the name of the endpoint.
    In = 4,
}

/// The way that was found for an answer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FoundWay {
    /// The interface; 0: none was found.
    pub ifindex: u32,
    /// A [`WayKind`].
    pub kind: u32,
    /// Not 0: the answer has the packet's terms, and not the client's.
    pub has_own_terms: u32,
    /// For [`WayKind::In`]: the link-layer address of the interface. Zero where it has none, or it is
    /// not known.
    pub station: [u16; 3],
    reserved: u16,
}

impl FoundWay {
    /// No way.
    pub const NONE: Self = Self {
        ifindex: 0,
        kind: 0,
        has_own_terms: 0,
        station: [0; 3],
        reserved: 0,
    };

    #[inline(always)]
    const fn new(ifindex: u32, kind: WayKind) -> Self {
        Self {
            ifindex,
            kind: kind as u32,
            ..Self::NONE
        }
    }
}

/// Sets how the answer to the packet leaves, or replies of its flow enter; 0 if they don't.
/// `seeker`: a [`Seeker`]. Global: it has the stack for itself, and the verifier checks it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn find_way(context: *mut __sk_buff, seeker: u32) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    let skb = Skb::new(context, work);
    let found = if seeker == Seeker::BeforeDnat as u32 {
        Some(FoundWay {
            has_own_terms: 1,
            ..FoundWay::new(skb.ifindex(), WayKind::Back)
        })
    } else {
        after_dnat(&skb, seeker)
    };
    work.way.set(found.unwrap_or(FoundWay::NONE));
    found.is_some().into()
}

#[inline(always)]
fn after_dnat(skb: &Skb, seeker: u32) -> Option<FoundWay> {
    let packet = skb.work.packet.get();
    let came_in_at = skb.came_in_at();
    let enters = came_in_at == 0 || seeker == Seeker::Replies as u32;
    let answer = if enters {
        *packet
    } else {
        answer_to(packet, skb.work.meant.get())
    };
    let Exit { ifindex, station } = exit(skb, &answer)?;
    let left_at = skb.ifindex();
    let there = maps::place_of(ifindex);
    // Only tags beside the frame can be taken off.
    if packet.network_at != 0 && !(enters && left_at == ifindex) {
        return None;
    }
    if enters {
        if !may_enter(left_at, there) {
            return None;
        }
        return Some(FoundWay {
            has_own_terms: 1,
            station,
            ..FoundWay::new(ifindex, WayKind::In)
        });
    }
    let mut found = match way_out(maps::place_of(came_in_at), there)? {
        Way::Routed(ifindex) => FoundWay::new(ifindex, WayKind::Routed),
        Way::OnLink(ifindex) => FoundWay::new(ifindex, WayKind::OnLink),
    };
    found.has_own_terms = (seeker == Seeker::Socket as u32).into();
    Some(found)
}

/// The packet that the node would send to the client.
#[inline(always)]
fn answer_to(packet: &Packet, meant: &Meant) -> Packet {
    Packet {
        src: meant.vip.addr,
        dst: meant.client,
        src_port: meant.vip.port,
        dst_port: meant.client_port,
        ..*packet
    }
}
