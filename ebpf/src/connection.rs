//! Packets of sockets that a socket load balancer has connected: judged by what the socket holds, as they show no Service.

use crate::frame::{Frame as _, Origin as _};
use crate::lookup::Lookup;
use crate::reject::{Hook, limit};
use crate::skb::{Skb, parse_packet};
use crate::{clock, maps, telemetry};
use aya_ebpf::bindings::__sk_buff;
use epguard_common::{
    Action, ActionModel, Decision, Intent, JUDGED, Mode, Outcome, Packet, Reason, Slot, Verdict, decide,
    judge,
};

/// Judges a packet by its socket. `None`: its Service has no denial for it, or the socket does not show the Service.
#[inline(always)]
pub fn judge_by_socket(context: *mut __sk_buff, hook: Hook) -> Option<Decision> {
    maps::view().filter(|view| view.socket_lb != 0 && view.suspects != 0)?;
    let parsed = parse_packet(context);
    match meant(context, parsed, hook) {
        0 => None,
        number => judge_meant(context, parsed, number),
    }
}

/// Judges a packet that is aimed at the Service with this slot. Not inlined: its stack is free again for the hook's own verdict.
#[inline(never)]
fn judge_meant(context: *mut __sk_buff, parsed: u32, number: u16) -> Option<Decision> {
    let (skb, slot) = (Skb::new(context, parsed), Slot { number });
    let (view, packet) = (maps::view()?, skb.packet()?);
    let (config, mode, debug) = maps::config()?;
    if mode == Mode::Off {
        return None;
    }
    let tables = Tables {
        skb: &skb,
        lookup: Lookup::new(&view, config, mode, Intent::carried(slot), skb.clock()),
        slot,
    };
    let verdict = judge(packet, &tables.lookup);
    // The hook's own verdict counts the others.
    if let Verdict::Clear | Verdict::Pass(Reason::Nothing, _) = verdict {
        return None;
    }
    let decision = decide(packet, verdict, &tables);
    match decision {
        Decision::Reject => limit::take(config, &tables.lookup, tables.lookup.now_ns()),
        // A hook at an interface without a role keeps the mark, and judges the packet no more.
        Decision::Capture => {
            skb.relabel(&view, skb.carried(&view), JUDGED);
        }
        _ => {}
    }
    telemetry::report(&skb, packet, verdict, decision, &tables.lookup, debug);
    Some(decision)
}

/// The slot of the Service that the socket's connection means, if the packet goes to a suspect and belongs to the connection; 0
/// if not, and for a packet that an egress hook has judged. Not inlined, as `judge_meant`.
#[inline(never)]
fn meant(context: *mut __sk_buff, parsed: u32, hook: Hook) -> u16 {
    let skb = Skb::new(context, parsed);
    let (Some(view), Some(packet)) = (maps::view(), skb.packet()) else {
        return 0;
    };
    if maps::suspect(&packet.dst).is_none() || skb.carried(&view) == JUDGED {
        return 0;
    }
    let Ok(connection) = maps::connection(context) else {
        return 0;
    };
    let now_ns = clock::now_ns();
    let Some(connection) = connection.filter(|at| at.has(packet, view.socket_lb_epoch, now_ns)) else {
        if matches!(hook, Hook::Ingress) {
            maps::count(Reason::Nothing, Outcome::NoConnection, skb.length());
        }
        return 0;
    };
    if matches!(hook, Hook::Egress) && (entered(&skb) || knows(skb.socket_cookie(), view.since_ns)) {
        return 0;
    }
    maps::service(&connection.vip).number
}

/// Whether an ingress hook has judged the packet: a redirect from there keeps the socket. Not inlined, as `judge_meant`.
#[inline(never)]
fn entered(skb: &Skb) -> bool {
    let ifindex = skb.came_in_at();
    ifindex != 0 && maps::is_hooked(ifindex)
}

/// Whether SOCKETS names the Service of a socket of the node's own: then the egress hook judges by that. Not inlined, as
/// `judge_meant`.
#[inline(never)]
fn knows(cookie: u64, since_ns: u64) -> bool {
    maps::socket(cookie).is_some_and(|(_, socket)| socket.peer(since_ns).slot.is_some())
}

/// What the choice looks up.
struct Tables<'a> {
    skb: &'a Skb,
    lookup: Lookup<'a>,
    slot: Slot,
}

impl ActionModel for Tables<'_> {
    type Frame = Skb;
    type Backend = ();

    #[inline(always)]
    fn frame(&self) -> &Skb {
        self.skb
    }

    #[inline(always)]
    fn own_action(&self) -> Action {
        self.lookup.own_action()
    }

    #[inline(always)]
    fn configured_action(&self, reason: Reason) -> Action {
        self.lookup.configured_action(reason)
    }

    /// A hooked interface takes [`JUDGED`] off the packet, and where its peer is hooked, too, the packet comes back with its socket.
    #[inline(always)]
    fn can_capture(&self) -> bool {
        !maps::is_hooked(maps::capture())
    }

    #[inline(always)]
    fn service(&self) -> u16 {
        self.slot.number
    }

    #[inline(always)]
    fn can_carry(&self, number: u16) -> bool {
        self.skb.can_carry(number)
    }

    /// A call goes to another endpoint when the socket connects; its packets never do.
    #[inline(always)]
    fn backend(&self, _: &Packet) -> Option<()> {
        None
    }

    #[inline(always)]
    fn is_live(&self, (): &()) -> bool {
        false
    }

    #[inline(always)]
    fn has_route(&self, _: &Packet, (): &()) -> bool {
        false
    }

    #[inline(always)]
    fn is_to_many(&self) -> bool {
        self.skb.is_to_many()
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        limit::has_room(self.lookup.config(), &self.lookup, self.lookup.now_ns())
    }
}
