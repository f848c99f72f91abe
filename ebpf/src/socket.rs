//! Packets of sockets that a socket load balancer has connected: the socket shows the Service, as
//! no packet does.

use crate::skb::Skb;
use crate::work::Work;
use crate::{cilium, clock, maps};
use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::helpers::generated::bpf_sk_fullsock;
use epguard_common::Packet;
use epguard_common::protocol::TCP;

/// What the socket of a packet shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// No socket of this machine sent the packet.
    NoSocket,
    /// Not the Service: the socket called the IP itself, or was connected before the hooks were
    /// there.
    Nothing,
    /// The Service's address that the caller named.
    Service,
}

/// What the socket of the packet shows. If that is the Service, sets what the client asked for.
#[inline(always)]
pub fn read(context: *mut __sk_buff, work: &Work) -> Shown {
    let Some(view) = maps::view() else {
        return Shown::NoSocket;
    };
    let Ok(is_known) = maps::read_connection(context, work.connection.as_ptr()) else {
        return Shown::NoSocket;
    };
    let packet = work.packet.get();
    if !is_known {
        // The hooks have seen no call of the socket, as it is older than they are.
        if has_one_peer(context, packet) && cilium::connected(context) != 0 {
            return Shown::Service;
        }
        return Shown::Nothing;
    }
    let connection = work.connection.get();
    // A socket of UDP that has ended its connection sends no more of its packets.
    if !connection.has(packet, view.socket_lb_epoch, clock::now_ns())
        || !has_one_peer(context, packet)
    {
        return Shown::Nothing;
    }
    work.mean(connection.vip);
    Shown::Service
}

/// Whether the socket of the packet shows its Service, at the egress hook; 0 if not, and for a
/// packet that an ingress hook has judged: a redirect from there keeps the socket. Global, as
/// `read_entry`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn has_left_by(context: *mut __sk_buff) -> u32 {
    let Some(work) = Work::of_this_processor() else {
        return 0;
    };
    if maps::view().is_none_or(|view| view.socket_lb == 0) {
        return 0;
    }
    let entered_at = Skb::new(context, work).came_in_at();
    if entered_at != 0 && maps::is_hooked(entered_at) {
        return 0;
    }
    u32::from(read(context, work) == Shown::Service)
}

/// Whether the socket of the packet sends to this destination only: one of TCP, or a connected one
/// of UDP. Another one may send there by itself as well as through a Service. Linux 5.1.
#[inline(always)]
fn has_one_peer(context: *mut __sk_buff, packet: &Packet) -> bool {
    if packet.protocol == TCP {
        return true;
    }
    // SAFETY: a field of the program's own context, compared with null; the helper takes such a
    // socket.
    let socket = unsafe {
        let socket = (*context).__bindgen_anon_2.sk;
        if socket.is_null() {
            return false;
        }
        bpf_sk_fullsock(socket)
    };
    // SAFETY: a socket that the packet holds.
    unsafe { socket.as_ref() }.is_some_and(|socket| socket.state == ESTABLISHED)
}

/// `TCP_ESTABLISHED`, which UDP uses too.
const ESTABLISHED: u32 = 1;
