//! The maps, and typed ways to ask them. Layouts: `epguard_common::abi`. Written by the agent, except where said.

use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::btf_maps::{Array, HashMap, LruHashMap, PerCpuArray, PerCpuHashMap, RingBuf};
use aya_ebpf::macros::btf_map;
use core::ptr::addr_of;
use epguard_common::{
    Action, Addr, Aimed, AnswerLimits, Backends, Bucket, Config, Count, Counter, Denial, Event, Mac, Mode,
    Outcome, Owner, Packet, Proof, Reason, Role, Sender, Slot, SocketIntent, Suspect, Target, Terminated,
    Uid, UidState, View, Vip, capacity,
};

#[btf_map]
static CONFIG: Array<Config, 1> = Array::new();
#[btf_map]
static VIEW: Array<View, 1> = Array::new();
#[btf_map]
static SUSPECTS: HashMap<Addr, Suspect, { capacity::SUSPECTS }> = HashMap::new();
#[btf_map]
static SERVICES: HashMap<Vip, Slot, { capacity::SERVICES }> = HashMap::new();
#[btf_map]
static DENIED: HashMap<Target, Denial, { capacity::DENIED }> = HashMap::new();
#[btf_map]
static BACKENDS: HashMap<Target, Backends, { capacity::BACKENDS }, { BPF_F_NO_PREALLOC as usize }> =
    HashMap::new();
/// `lifted_ns`, `holder_ns`, `confirmed_ns` and `rate` are written here.
#[btf_map]
static TERMINATED: HashMap<Addr, Terminated, { capacity::TERMINATED }> = HashMap::new();
#[btf_map]
static MACS: HashMap<u32, Mac, { capacity::MACS }> = HashMap::new();
#[btf_map]
static INTERFACES: HashMap<u32, Role, { capacity::INTERFACES }> = HashMap::new();
/// Written by the cgroup hooks.
#[btf_map]
static SOCKETS: LruHashMap<u64, SocketIntent, { capacity::SOCKETS }> = LruHashMap::new();
/// Written by the ingress hook, while foreign programs may wipe numbers off packets.
#[btf_map]
pub static AIMED: LruHashMap<Sender, Aimed, { capacity::AIMED }> = LruHashMap::new();
/// Keys are put in by the agent, values counted here.
#[btf_map]
static COUNTERS: PerCpuHashMap<Counter, Count, { capacity::COUNTERS }> = PerCpuHashMap::new();
/// Written here.
#[btf_map]
static EVENTS: RingBuf<Event, { capacity::EVENTS }> = RingBuf::new();
/// Written here: the node's share of answers.
#[btf_map]
static ANSWERS: Array<Bucket, 1> = Array::new();
/// Written here, for an instant; nothing lives in it.
#[btf_map]
static SCRATCH: PerCpuArray<Packet, 1> = PerCpuArray::new();
/// For people and reports, and to know that a live endpoint is the one that was meant.
#[btf_map]
static OWNERS: HashMap<Addr, Owner, { capacity::OWNERS }, { BPF_F_NO_PREALLOC as usize }> = HashMap::new();

/// Where this CPU's programs leave a packet for themselves.
#[inline(always)]
pub fn scratch() -> Option<*mut Packet> {
    SCRATCH.get_ptr_mut(0)
}

/// What the agent vouches for; `None` only if the map is missing.
#[inline(always)]
pub fn view() -> Option<View> {
    // SAFETY: one element that is only ever overwritten in place; every bit pattern is a View.
    VIEW.get_ptr(0).map(|view| unsafe { *view })
}

/// The same while there is anything to look for.
#[inline(always)]
pub fn active() -> Option<View> {
    view().filter(|view| !view.is_idle())
}

/// The operator's mode, and whether the programs shall log. Enums are read as numbers: a person may have written
/// anything with bpftool.
#[inline(always)]
pub fn config() -> Option<(*const Config, Mode, bool)> {
    let config = CONFIG.get_ptr(0)?;
    // SAFETY: an element of an array map is never freed; the field is read as the u32 it is.
    let (mode, debug) = unsafe { (addr_of!((*config).mode).cast::<u32>().read(), (*config).debug) };
    Some((config, Mode::from_raw(mode), debug != 0))
}

/// The lower of the operator's mode and the reason's own.
#[inline(always)]
pub fn mode_of(config: *const Config, mode: Mode, reason: Reason) -> Mode {
    // SAFETY: as in `config`.
    let own = Mode::from_raw(unsafe {
        match reason {
            Reason::Nothing => return Mode::Off,
            Reason::DeadBackend => addr_of!((*config).reasons.dead_backend).cast::<u32>().read(),
            Reason::Reused => addr_of!((*config).reasons.reused).cast::<u32>().read(),
            Reason::RetiredBackend => addr_of!((*config).reasons.retired_backend).cast::<u32>().read(),
            Reason::Terminated => addr_of!((*config).reasons.terminated).cast::<u32>().read(),
        }
    });
    own.lower(mode)
}

/// How denials for a reason are carried out.
#[inline(always)]
pub fn action_of(config: *const Config, reason: Reason) -> Action {
    // SAFETY: a local variable. Read as volatile: where LLVM knows which numbers a reason has, it makes an index of it,
    // without the bounds that the verifier asks for.
    let number = unsafe { addr_of!(reason).cast::<u32>().read_volatile() };
    let reason = Reason::from_raw(number).unwrap_or(Reason::Nothing);
    // SAFETY: as in `config`.
    Action::from_raw(unsafe {
        match reason {
            Reason::Nothing => return Action::Unset,
            Reason::DeadBackend => addr_of!((*config).actions.dead_backend).cast::<u32>().read(),
            Reason::Reused => addr_of!((*config).actions.reused).cast::<u32>().read(),
            Reason::RetiredBackend => addr_of!((*config).actions.retired_backend).cast::<u32>().read(),
            Reason::Terminated => addr_of!((*config).actions.terminated).cast::<u32>().read(),
        }
    })
}

/// How many packets are answered.
#[inline(always)]
pub fn limits(config: *const Config) -> AnswerLimits {
    // SAFETY: as in `config`; every bit pattern is an AnswerLimits.
    unsafe { (*config).limits }
}

/// The interface that captured packets go to; 0: none.
#[inline(always)]
pub fn capture() -> u32 {
    // SAFETY: as in `config`.
    CONFIG.get_ptr(0).map_or(0, |config| unsafe { (*config).capture })
}

/// The answers of this node; `None` only if the map is missing.
#[inline(always)]
pub fn answers() -> Option<*mut Bucket> {
    ANSWERS.get_ptr_mut(0)
}

/// The suspect at this address.
#[inline(always)]
pub fn suspect(addr: &Addr) -> Option<*mut Suspect> {
    SUSPECTS.get_ptr_mut(addr)
}

/// The dead pod that had the address last, if nobody holds it now.
#[inline(always)]
pub fn terminated(addr: &Addr) -> Option<*mut Terminated> {
    TERMINATED.get_ptr_mut(addr)
}

/// What an interface is to the node; the default if nobody has said yet.
#[inline(always)]
pub fn role(ifindex: u32) -> Role {
    // SAFETY: every bit pattern is a Role.
    INTERFACES
        .get_ptr(ifindex)
        .map_or_else(Role::default, |role| unsafe { *role })
}

/// Whether programs of ours judge packets at an interface.
#[inline(always)]
pub fn is_hooked(ifindex: u32) -> bool {
    INTERFACES.get_ptr(ifindex).is_some()
}

/// The link-layer address of an interface, where XDP may judge.
#[inline(always)]
pub fn mac(ifindex: u32) -> Option<Mac> {
    // SAFETY: every bit pattern is a Mac.
    MACS.get_ptr(ifindex).map(|mac| unsafe { *mac })
}

/// The slot of an affected Service at this address and port; none if there is none.
#[inline(always)]
pub fn service(vip: &Vip) -> Slot {
    // SAFETY: every bit pattern is a Slot; a slot recycled under our eyes names another Service only after its grace
    // period, see the agent's `slots`.
    SERVICES.get_ptr(vip).map_or(Slot::NONE, |slot| unsafe { *slot })
}

/// The denial of an endpoint. A number that is no proof is no denial.
#[inline(always)]
pub fn denial(target: &Target) -> Option<(*const Denial, Proof)> {
    let denial = DENIED.get_ptr(target)?;
    // SAFETY: the entry stays readable for the run of the program (RCU); enums are read as the u32 they are.
    let (reason, state, mode, held, slot_since_ns) = unsafe {
        (
            addr_of!((*denial).reason).cast::<u32>().read(),
            addr_of!((*denial).uid_state).cast::<u32>().read(),
            addr_of!((*denial).mode).cast::<u32>().read(),
            (*denial).held != 0,
            (*denial).slot_since_ns,
        )
    };
    let uid_state = match state {
        1 => UidState::Retired,
        2 => UidState::Dead,
        _ => UidState::Live,
    };
    Some((
        denial,
        Proof {
            reason: Reason::from_raw(reason)?,
            uid_state,
            mode: Mode::from_raw(mode),
            held,
            slot_since_ns,
        },
    ))
}

/// Where flows that open towards a denied endpoint go.
#[inline(always)]
pub fn backends(target: &Target) -> Option<*const Backends> {
    BACKENDS.get_ptr(target)
}

/// The pod that publishes the address.
#[inline(always)]
pub fn owner(addr: &Addr) -> Option<Uid> {
    // SAFETY: the entry stays readable for the run of the program; UIDs are plain octets.
    OWNERS.get_ptr(addr).map(|owner| unsafe { (*owner).uid })
}

/// What is known of a socket.
#[inline(always)]
pub fn socket(cookie: u64) -> Option<*mut SocketIntent> {
    SOCKETS.get_ptr_mut(cookie)
}

/// Writes down a socket. A full LRU map forgets the coldest one, which then has no intent and passes.
#[inline(always)]
pub fn remember_socket(cookie: u64, intent: &SocketIntent) -> bool {
    SOCKETS.insert(cookie, intent, 0).is_ok()
}

/// Forgets a socket.
#[inline(always)]
pub fn forget_socket(cookie: u64) -> bool {
    SOCKETS.remove(cookie).is_ok()
}

/// Counts one packet, or one piece of news. Not inlined, for each copy would take its part of the stack.
#[inline(never)]
pub fn count(reason: Reason, outcome: Outcome, bytes: u32) {
    if let Some(count) = COUNTERS.get_ptr_mut(Counter { reason, outcome }) {
        // SAFETY: this CPU's own value, and a program of ours is not interrupted by another one on it.
        unsafe {
            (*count).packets += 1;
            (*count).bytes += u64::from(bytes);
        }
    }
}

/// Hands an event to the agent; false if the ring is full.
#[inline(always)]
pub fn publish(event: &Event) -> bool {
    EVENTS.output(event, 0).is_ok()
}
