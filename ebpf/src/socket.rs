//! Packets of sockets that a socket load balancer has connected: the socket shows the Service, as
//! no packet does.

use crate::skb::Skb;
use crate::{cilium, clock, maps};
use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::helpers::generated::bpf_sk_fullsock;
use epguard_common::Packet;

/// What the socket of a packet shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// No socket of this machine sent the packet.
    NoSocket,
    /// Not the Service: the socket called the IP itself, or was connected before the hooks were
    /// there.
    Nothing,
    /// The scratch map has the Service's address that the caller named.
    Service,
}

/// What the socket of the packet in the scratch map shows.
#[inline(always)]
pub fn read(context: *mut __sk_buff) -> Shown {
    let (Some(view), Some(scratch)) = (maps::view(), maps::scratch()) else {
        return Shown::NoSocket;
    };
    // SAFETY: this CPU's own element, which no other program of ours uses until this one ends.
    let (packet, connection) = unsafe { (&(*scratch).packet, &mut (*scratch).connection) };
    let Ok(is_known) = maps::read_connection(context, connection) else {
        return Shown::NoSocket;
    };
    if !is_known {
        // The hooks have seen no call of the socket, as it is older than they are.
        let shown = has_one_peer(context, packet) && cilium::connected(context) != 0;
        return if shown {
            Shown::Service
        } else {
            Shown::Nothing
        };
    }
    // A socket of UDP that has ended its connection sends no more of its packets.
    if !connection.has(packet, view.socket_lb_epoch, clock::now_ns())
        || !has_one_peer(context, packet)
    {
        return Shown::Nothing;
    }
    maps::mean(connection.vip);
    Shown::Service
}

/// Whether the socket of the packet in the scratch map shows its Service, at the egress hook; 0 if
/// not, and for a packet that an ingress hook has judged: a redirect from there keeps the socket.
/// Global, as `read_entry`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn has_left_by(context: *mut __sk_buff) -> u32 {
    if maps::view().is_none_or(|view| view.socket_lb == 0) {
        return 0;
    }
    let entered_at = Skb::judged(context).came_in_at();
    let judged = entered_at != 0 && maps::is_hooked(entered_at);
    u32::from(!judged && read(context) == Shown::Service)
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

const TCP: u8 = 6;
/// `TCP_ESTABLISHED`, which UDP uses too.
const ESTABLISHED: u32 = 1;
