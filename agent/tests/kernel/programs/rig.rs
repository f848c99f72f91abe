//! The loaded programs with maps filled by hand, and what a packet leaves behind.

use super::kernel;
use super::tracked::Tracked;
use super::world;
use aya::Pod;
use aya::maps::{Array, HashMap, MapData};
use aya::programs::{Program, SchedClassifier, TestRun as _, TestRunOptions, Xdp, tc};
use epguard::kernel::datapath::Datapath;
use epguard_common::{
    Addr, Config, DenialKey, Gate, Gates, Keyed, RawConfig, RawDenial, ServiceNumber, Verdict,
    View, Vip,
};
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

/// `TC_ACT_SHOT`.
pub const DROP: i32 = 2;
/// `TC_ACT_UNSPEC`: the next program decides.
pub const PASS: i32 = -1;

pub const XDP_DROP: u32 = 1;
pub const XDP_PASS: u32 = 2;

/// Ingress and egress hook in one, on one packet.
pub const BOTH: &str = "epguard_selftest";

/// `struct __sk_buff` in octets.
pub type Context = [u8; 192];

/// Its `ingress_ifindex` and `ifindex`.
const CAME_IN_AT: Range<usize> = 36..40;
const IFINDEX: Range<usize> = 40..44;

/// What a run of a program gave.
pub struct Ran {
    pub action: i32,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
    pub context: Context,
    /// Of one run, on average.
    pub duration: Duration,
}

/// The programs, the world of `world::fill`, enforcing.
pub struct Rig {
    datapath: Datapath,
    gates: Box<Gates>,
    /// conntrack's entry of each packet, for [`BOTH`]; else the one that a client of the packet's
    /// Service would have.
    pub tracked: Option<Tracked>,
    /// The interface where packets meet the programs; 0: loopback.
    pub ifindex: u32,
    /// The one by which they came in; 0: a process of the node has sent them.
    pub came_in_at: u32,
}

impl Rig {
    pub fn new() -> Self {
        Self::filled(kernel::load())
    }

    /// The same of these programs.
    pub fn filled(datapath: Datapath) -> Self {
        let mut rig = Self::of(datapath);
        world::fill(&mut rig);
        rig
    }

    pub fn bare() -> Self {
        Self::of(kernel::load())
    }

    /// With the maps as they are.
    pub fn of(mut datapath: Datapath) -> Self {
        let selftest: &mut SchedClassifier =
            datapath.ebpf.program_mut(BOTH).unwrap().try_into().unwrap();
        selftest.load().unwrap();
        let gates = Box::new(Gates::EMPTY);
        let mut rig = Self {
            datapath,
            gates,
            tracked: None,
            ifindex: 0,
            came_in_at: 0,
        };
        rig.forget_counters();
        rig
    }

    /// Attaches a program where packets enter.
    pub fn attach(&mut self, program: &str, device: &str) {
        let program = self.datapath.ebpf.program_mut(program).unwrap();
        let program: &mut SchedClassifier = program.try_into().unwrap();
        // Needed before Linux 6.6.
        let _ = tc::qdisc_add_clsact(device);
        program.attach(device, tc::TcAttachType::Ingress).unwrap();
    }

    pub fn run(&mut self, program: &str, frame: &[u8]) -> Ran {
        self.repeat(program, frame, self.context(), 1)
    }

    /// The context of packets that come in and leave at these interfaces.
    pub fn context(&self) -> Context {
        let mut context = [0; 192];
        context[CAME_IN_AT].copy_from_slice(&self.came_in_at.to_ne_bytes());
        context[IFINDEX].copy_from_slice(&self.ifindex.to_ne_bytes());
        context
    }

    pub fn repeat(&mut self, program: &str, frame: &[u8], context: Context, repeat: u32) -> Ran {
        self.track(frame);
        let program: &mut SchedClassifier = self
            .datapath
            .ebpf
            .program_mut(program)
            .unwrap()
            .try_into()
            .unwrap();
        let mut data_out = vec![0; frame.len() + 64];
        let mut context_out = context;
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut data_out),
            ctx_in: Some(&context),
            ctx_out: Some(&mut context_out),
            repeat,
            ..TestRunOptions::default()
        };
        let result = program.test_run(options).unwrap();
        data_out.truncate(result.data_size_out as usize);
        Ran {
            action: result.return_value.cast_signed(),
            frame: data_out,
            context: context_out,
            duration: result.duration,
        }
    }

    /// Gives [`BOTH`] the conntrack entry of the frame.
    pub fn track(&mut self, frame: &[u8]) {
        let tracked = self.tracked.unwrap_or_else(|| world::tracked(frame));
        self.set("TEST_ENTRY", tracked);
    }

    /// Runs the XDP program on a frame that loopback takes in.
    pub fn run_xdp(&mut self, frame: &[u8]) -> u32 {
        self.turn_xdp(frame).0
    }

    /// The same, with the frame as the program left it.
    pub fn turn_xdp(&mut self, frame: &[u8]) -> (u32, Vec<u8>) {
        self.program("epguard_xdp");
        let program: &mut Xdp = self
            .datapath
            .ebpf
            .program_mut("epguard_xdp")
            .unwrap()
            .try_into()
            .unwrap();
        let mut data_out = vec![0; frame.len()];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut data_out),
            repeat: 1,
            ..TestRunOptions::default()
        };
        let result = program.test_run(options).unwrap();
        data_out.truncate(result.data_size_out as usize);
        (result.return_value, data_out)
    }

    /// A loaded program's descriptor.
    pub fn program(&mut self, name: &str) -> BorrowedFd<'_> {
        let program = self.datapath.ebpf.program_mut(name).unwrap();
        if let Program::Xdp(xdp) = program
            && xdp.fd().is_err()
        {
            xdp.load().unwrap();
        }
        program.fd().unwrap().as_fd()
    }

    /// Runs a frame through both hooks, and checks the action, the counters, and that the frame is
    /// left alone.
    #[track_caller]
    pub fn expect(&mut self, name: &str, frame: &[u8], verdict: Verdict) {
        self.forget_counters();
        let ran = self.run(BOTH, frame);
        let denied = matches!(verdict, Verdict::Deny { enforce: true, .. });
        assert_eq!(
            ran.action,
            if denied { DROP } else { PASS },
            "action: {name}"
        );
        assert_eq!(ran.frame, frame, "a program changed the frame: {name}");
        let counted = verdict
            .counted()
            .map(|pair| (pair, (1, frame.len() as u64)));
        assert_eq!(
            self.counters(),
            counted.into_iter().collect(),
            "counters: {name}"
        );
    }

    pub fn put<K: Pod, V: Pod>(&mut self, map: &str, key: &K, value: V) {
        self.open(map, key);
        let mut map: HashMap<&mut MapData, K, V> = self.map(map).try_into().unwrap();
        map.insert(key, value, 0).unwrap();
    }

    /// The tables of the gate for all that was put in.
    pub fn gates(&self) -> Gates {
        *self.gates
    }

    /// Writes the tables of the gate.
    pub fn set_gates(&mut self, gates: &Gates) {
        self.set("GATE", gates.first);
        self.set("SECOND_GATE", gates.second);
    }

    /// As the agent does after it has removed all entries.
    pub fn close_gate(&mut self) {
        *self.gates = Gates::EMPTY;
        self.set_gates(&Gates::EMPTY);
    }

    /// As the agent does before it writes an entry. The keys begin with the address; those of flows
    /// with the client's.
    fn open<K: Pod>(&mut self, map: &str, key: &K) {
        let (bit, place) = match map {
            "SUSPECTS" => (Gate::SUSPECT, 0),
            "TERMINATED" => (Gate::TERMINATED, 0),
            "BACKENDS" => (Gate::FLOW, 0),
            "FLOWS" | "OPENING" | "RETURNS" | "OPENING_RETURNS" => (Gate::FLOW, 1),
            _ => return,
        };
        assert!(size_of::<K>() >= (place + 1) * size_of::<Addr>());
        // SAFETY: a Pod of that length at least; every bit pattern is an Addr.
        let addr = unsafe {
            std::ptr::from_ref(key)
                .cast::<Addr>()
                .add(place)
                .read_unaligned()
        };
        self.gates.add(addr, bit);
        self.set_gates(&self.gates());
    }

    pub fn get<K: Pod, V: Pod>(&mut self, map: &str, key: &K) -> Option<V> {
        let map: HashMap<&mut MapData, K, V> = self.map(map).try_into().unwrap();
        map.get(key, 0).ok()
    }

    pub fn get_keyed<K: Pod + PartialEq, V>(&mut self, map: &str, key: &K) -> Option<V>
    where
        Keyed<K, V>: Pod,
    {
        let map: HashMap<&mut MapData, K, Keyed<K, V>> = self.map(map).try_into().unwrap();
        map.get(key, 0).ok()?.value_of(key)
    }

    /// Puts a value in as the agent does: behind its key.
    pub fn put_keyed<K: Pod, V>(&mut self, map: &str, key: &K, value: V)
    where
        Keyed<K, V>: Pod,
    {
        self.put(map, key, Keyed { key: *key, value });
    }

    pub fn deny(&mut self, target: &DenialKey, denial: impl Into<RawDenial>) {
        self.put_keyed::<_, RawDenial>("DENIED", target, denial.into());
    }

    pub fn affect(&mut self, vip: &Vip, service: ServiceNumber) {
        self.put_keyed("SERVICES", vip, service);
    }

    pub fn remove<K: Pod, V: Pod>(&mut self, map: &str, key: &K) {
        let mut map: HashMap<&mut MapData, K, V> = self.map(map).try_into().unwrap();
        map.remove(key).unwrap();
    }

    /// Overwrites CONFIG or VIEW; also with octets that are none.
    pub fn set<V: Pod>(&mut self, map: &str, value: V) {
        let mut map: Array<&mut MapData, V> = self.map(map).try_into().unwrap();
        map.set(0, value, 0).unwrap();
    }

    pub fn configure(&mut self, config: Config) {
        self.set("CONFIG", RawConfig::from(config));
    }

    pub fn write_view(&mut self, view: View) {
        self.set("VIEW", view);
    }

    pub(super) fn ebpf(&mut self) -> &mut aya::Ebpf {
        &mut self.datapath.ebpf
    }

    pub(super) fn map(&mut self, name: &str) -> &mut aya::maps::Map {
        self.datapath.ebpf.map_mut(name).unwrap()
    }
}
