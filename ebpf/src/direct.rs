//! Aimed at a pod's IP itself: is there anybody? And who speaks is there.

use crate::frame::Frame;
use crate::xdp::Raw;
use crate::{clock, maps, reject, telemetry};
use aya_ebpf::bindings::bpf_fib_lookup as Route;
use aya_ebpf::helpers::generated::bpf_fib_lookup;
use core::cell::Cell;
use core::mem::MaybeUninit;
use epguard_common::{
    Action, Addr, Backends, Config, DirectModel, Fate, Mode, Packet, Rate, Reason, Role, Slot, Terminated,
    Uid, View, Way, judge_direct,
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
    let now_ns = clock::now_ns();
    // SAFETY: the entry stays writable for the run of the program; CPUs that race write nearly the same.
    unsafe {
        if (*terminated).lifted_ns != 0 {
            return;
        }
        (*terminated).lifted_ns = now_ns;
    }
    telemetry::lifted(frame, &address, terminated, now_ns);
}

/// The decision's questions, answered from the maps and the node's routes.
struct Tables<'a, F> {
    frame: &'a F,
    config: *const Config,
    mode: Mode,
    lease_deadline_ns: u64,
    terminated: Cell<Option<*mut Terminated>>,
}

impl<F: Frame> DirectModel for Tables<'_, F> {
    #[inline(always)]
    fn lifted(&self, addr: &Addr) -> Option<bool> {
        let terminated = maps::terminated(addr)?;
        self.terminated.set(Some(terminated));
        // SAFETY: the entry stays readable for the run of the program.
        Some(unsafe { (*terminated).lifted_ns != 0 })
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
        // SAFETY: as in `lifted`.
        let mode = self.terminated.get().map(|entry| unsafe { (*entry).mode });
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
            .map(|entry| unsafe { &raw mut (*entry).rate })
    }

    #[inline(always)]
    fn uids(&self) -> (Uid, Uid) {
        // SAFETY: as in `rate`; UIDs are plain octets.
        let dead = self.terminated.get().map(|entry| unsafe { (*entry).dead_uid });
        (dead.unwrap_or_default(), Uid::NONE)
    }

    #[inline(always)]
    fn slot(&self) -> Slot {
        Slot::NONE
    }

    #[inline(always)]
    fn backends(&self, _: &Packet) -> Option<*const Backends> {
        None
    }

    #[inline(always)]
    fn action(&self) -> Action {
        // SAFETY: as in `rate`.
        let action = self.terminated.get().map(|entry| unsafe { (*entry).action });
        Action::from_raw(action.unwrap_or_default())
    }
}

/// Where a route leads.
pub enum Hop {
    Blackhole,
    Through(u32),
}

/// Where the node would forward the packet to; `None` where it would not, or says so to the sender.
///
/// With no flags the kernel asks the routing rules (`ip rule`) which table counts, as for a packet that enters through
/// the frame's interface (in a VRF, that one's table); `BPF_FIB_LOOKUP_DIRECT` would skip the rules,
/// `BPF_FIB_LOOKUP_OUTPUT` ask as for a packet that leaves there. The packet's mark is taken for 0: rules by mark would
/// take `BPF_FIB_LOOKUP_MARK`, Linux 6.10. The helper: 4.18; the interface of a hop whose neighbour is unknown: 5.10.
#[inline(always)]
pub fn route<F: Frame>(frame: &F, packet: &Packet) -> Option<Hop> {
    // SAFETY: an all-zero bpf_fib_lookup is a valid one.
    let mut route: Route = unsafe { MaybeUninit::zeroed().assume_init() };
    route.l4_protocol = packet.protocol;
    route.sport = packet.src_port.to_be();
    route.dport = packet.dst_port.to_be();
    route.ifindex = frame.ifindex();
    let (src, dst) = (packet.src.words(), packet.dst.words());
    if packet.dst.is_v4() {
        route.family = AF_INET;
        route.__bindgen_anon_3.ipv4_src = src[3];
        route.__bindgen_anon_4.ipv4_dst = dst[3];
    } else {
        route.family = AF_INET6;
        route.__bindgen_anon_3.ipv6_src = src;
        route.__bindgen_anon_4.ipv6_dst = dst;
    }
    // SAFETY: the program's own context, and as many octets as are said.
    let answer = unsafe { bpf_fib_lookup(frame.as_ptr(), &raw mut route, ROUTE_SIZE, 0) };
    match answer {
        BLACKHOLE => Some(Hop::Blackhole),
        SUCCESS | NO_NEIGHBOUR | FRAGMENTATION_NEEDED => Some(Hop::Through(route.ifindex)),
        _ => None,
    }
}

#[allow(clippy::cast_possible_wrap, reason = "64 octets")]
const ROUTE_SIZE: i32 = size_of::<Route>() as i32;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// `BPF_FIB_LKUP_RET_*` of linux/bpf.h.
const SUCCESS: i64 = 0;
const BLACKHOLE: i64 = 1;
const NO_NEIGHBOUR: i64 = 7;
const FRAGMENTATION_NEEDED: i64 = 8;
