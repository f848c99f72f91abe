//! Aimed at a pod's IP itself: is there anybody? And who speaks is there.

use crate::frame::Frame;
use crate::route::{Hop, route, source_interface};
use crate::skb::Skb;
use crate::xdp::Raw;
use crate::{clock, maps, reject, telemetry};
use aya_ebpf::EbpfContext as _;
use core::cell::Cell;
use epguard_common::{
    Action, Addr, Backend, DirectModel, Fate, Mode, Packet, Rate, RawConfig, Reason, Role, Sighting, Slot,
    Terminated, Uid, View, Way, is_vlan_tag, judge_direct,
};

/// Judges where nobody but the program at the same interface's TC hook will see what passes: what is not stopped
/// here is counted and reported there.
#[inline(always)]
pub fn judge_early(frame: &Raw) -> Fate {
    let Some(view) = maps::view().filter(|view| view.terminated != 0) else {
        return Fate::Pass;
    };
    let packet = frame.parse();
    lift(frame, packet);
    packet.map_or(Fate::Pass, |packet| judge(frame, packet, &view))
}

/// Judges a packet to an IP that nobody may hold.
#[inline(always)]
pub fn judge<F: Frame>(frame: &F, packet: &Packet, view: &View) -> Fate {
    let Some((config, mode, debug)) = maps::config() else {
        return Fate::Pass;
    };
    let tables = Tables {
        frame,
        config,
        mode,
        lease_deadline_ns: view.lease_deadline_ns,
        terminated: Cell::new(None),
    };
    let verdict = judge_direct(packet, &tables);
    let fate = reject::fate(frame, packet, verdict, &tables, config);
    let ours = match fate {
        Fate::Drop => true,
        Fate::Answer => frame.is_answered(packet),
        _ => false,
    };
    if F::IS_LAST || ours {
        telemetry::report(frame, packet, verdict, fate, &tables, debug);
        return fate;
    }
    Fate::Pass
}

/// Nothing is denied any more at an address that speaks. The agent learns of it, but nobody waits for that.
#[inline(always)]
pub fn lift<F: Frame>(frame: &F, packet: Option<&Packet>) {
    let Some(address) = frame.claimed(packet) else {
        return;
    };
    let Some(terminated) = maps::terminated(&address) else {
        return;
    };
    if terminated.lifted {
        return;
    }
    let now_ns = clock::now_ns();
    // SAFETY: a field of an entry that stays writable for the run of the program; CPUs that race write nearly the same.
    unsafe { (&raw mut (*terminated.entry).lifted_ns).write_volatile(now_ns) };
    telemetry::lifted(frame, &address, terminated.entry, now_ns);
}

/// Notes a packet that shows a holder of an IP in TERMINATED, see [`Terminated::holder_ns`]: it is untagged, and enters at
/// the pod interface that the node routes its source to. Any other packet from the IP may be forged.
#[inline(always)]
pub fn sight(skb: &Skb, packet: &Packet) {
    let Some(terminated) = maps::terminated(&packet.src) else {
        return;
    };
    let now_ns = clock::now_ns();
    let entry = terminated.entry;
    // SAFETY: fields of an entry that stays there for the run of the program.
    let (holder_ns, confirmed_ns) = unsafe {
        (
            (&raw const (*entry).holder_ns).read_volatile(),
            (&raw const (*entry).confirmed_ns).read_volatile(),
        )
    };
    let Some(sighting) = Terminated::sighting(holder_ns, confirmed_ns, now_ns) else {
        return;
    };
    let untagged = !skb.is_tagged() && !is_vlan_tag(skb.ether_type());
    if !untagged
        || maps::role(skb.ifindex()) != Role::POD
        || source_interface(skb.as_ptr().cast()) != skb.ifindex()
    {
        return;
    }
    // SAFETY: as above, aligned; CPUs that race write nearly the same.
    unsafe {
        match sighting {
            Sighting::First => (&raw mut (*entry).holder_ns).write_volatile(now_ns),
            Sighting::Confirming => (&raw mut (*entry).confirmed_ns).write_volatile(now_ns),
        }
    }
}

/// The decision's questions, answered from the maps and the node's routes.
struct Tables<'a, F> {
    frame: &'a F,
    config: *const RawConfig,
    mode: Mode,
    lease_deadline_ns: u64,
    terminated: Cell<Option<maps::Vacant>>,
}

impl<F: Frame> DirectModel for Tables<'_, F> {
    #[inline(always)]
    fn lifted(&self, addr: &Addr) -> Option<bool> {
        let terminated = maps::terminated(addr)?;
        self.terminated.set(Some(terminated));
        Some(terminated.lifted)
    }

    #[inline(always)]
    fn is_ours(&self) -> bool {
        self.frame.is_ours()
    }

    #[inline(always)]
    fn mode(&self) -> Mode {
        maps::mode_of(self.config, self.mode, Reason::Terminated)
    }

    #[inline(always)]
    fn bound(&self) -> Mode {
        let mode = self.terminated.get().map(|found| found.mode);
        Mode::from_raw(mode.unwrap_or_default())
    }

    #[inline(always)]
    fn lease_is_valid(&self) -> bool {
        clock::now_ns() <= self.lease_deadline_ns
    }

    #[inline(always)]
    fn way(&self, packet: &Packet) -> Way {
        match route(self.frame, packet) {
            Some(Hop::Blackhole) => Way::Away,
            Some(Hop::Through(ifindex)) => match maps::role(ifindex) {
                Role::UPLINK | Role::STACKED | Role::TUNNEL => Way::Away,
                Role::BRIDGE => Way::Bridge,
                _ => Way::Held,
            },
            None => Way::Held,
        }
    }
}

impl<F> telemetry::Evidence for Tables<'_, F> {
    #[inline(always)]
    fn rate(&self) -> Option<*mut Rate> {
        // SAFETY: a field of an entry that stays there for the run of the program.
        self.terminated
            .get()
            .map(|found| unsafe { &raw mut (*found.entry).rate })
    }

    #[inline(always)]
    fn tell_uids(&self, _: &Packet, dead: *mut Uid, _: *mut Uid) {
        if let Some(found) = self.terminated.get() {
            // SAFETY: as in `rate`; UIDs are plain octets, and the caller has room for one.
            unsafe { dead.write((&raw const (*found.entry).dead_uid).read()) };
        }
    }

    #[inline(always)]
    fn slot(&self) -> Slot {
        Slot::NONE
    }

    #[inline(always)]
    fn backend(&self, _: &Packet) -> Option<Backend> {
        None
    }

    #[inline(always)]
    fn action(&self) -> Action {
        let action = self.terminated.get().map(|found| found.action);
        Action::from_raw(action.unwrap_or_default())
    }
}
