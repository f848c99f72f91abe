//! The real object in the kernel, with maps filled by hand.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "tests and the benchmark use their own parts, and may panic"
)]

use aya::maps::{Array, HashMap, Map, MapData, PerCpuHashMap, RingBuf};
use aya::programs::{SchedClassifier, TestRun as _, TestRunOptions};
use epguard::datapath::{Datapath, Hooks, boot_ns};
use epguard::events;
use epguard_common::{
    Addr, Config, Count, Counter, Denial, Event, Mode, Outcome, Reason, ReasonModes, Slot, Suspect, Target,
    Uid, UidState, View, Vip,
};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

pub const SLOT: Slot = Slot { number: 0x8001 };
pub const DEAD: Uid = Uid { octets: [0xdd; 16] };
pub const OWNER: Uid = Uid { octets: [0x0a; 16] };

/// `TC_ACT_SHOT`, and `TC_ACT_UNSPEC` as a program's u32.
pub const SHOT: u32 = 2;
pub const PASS: u32 = u32::MAX;

/// Programs and maps on a bpffs of their own.
pub struct Kernel {
    pub datapath: Datapath,
    pins: PathBuf,
}

impl Kernel {
    /// Loaded, enforcing, with a lease of a minute and no suspects.
    pub fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let pins = std::env::temp_dir().join(format!("epguard-programs-{}-{serial}", std::process::id()));
        std::fs::create_dir_all(&pins).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "bpf", "bpf"])
            .arg(&pins)
            .status()
            .unwrap();
        assert!(mounted.success(), "mounting a bpffs needs root");
        let mut datapath = Datapath::load(&pins, Hooks::Auto).expect("run `cargo xtask build` first");
        let selftest: &mut SchedClassifier = datapath
            .ebpf
            .program_mut("epguard_selftest")
            .unwrap()
            .try_into()
            .unwrap();
        selftest.load().unwrap();
        let kernel = Self { datapath, pins };
        kernel.count_everything();
        kernel.configure(Mode::Enforce);
        kernel
    }

    /// The same, with one address that is denied at port 8080 (TCP, UDP, SCTP) for whoever is aimed at it.
    pub fn denying(addr: Addr, reason: Reason, uid_state: UidState) -> Self {
        let kernel = Self::new();
        kernel.suspect(addr, Suspect::DENIED);
        for protocol in [6, 17, 132] {
            kernel.serve(addr, 8080, protocol);
            kernel.deny(addr, 8080, protocol, reason, uid_state);
        }
        kernel
    }

    pub fn configure(&self, mode: Mode) {
        let reasons = ReasonModes {
            dead_backend: Mode::Enforce,
            reused: Mode::Enforce,
            retired_backend: Mode::Enforce,
            terminated: Mode::Enforce,
        };
        self.set_config(Config {
            mode,
            reasons,
            ..Config::default()
        });
    }

    pub fn set_config(&self, config: Config) {
        let mut map: Array<_, Config> = Map::Array(self.map("CONFIG")).try_into().unwrap();
        map.set(0, config, 0).unwrap();
    }

    /// How many suspects the programs believe in, and how long the lease runs.
    pub fn set_view(&self, suspects: u32, lease_deadline_ns: u64) {
        let mut map: Array<_, View> = Map::Array(self.map("VIEW")).try_into().unwrap();
        map.set(
            0,
            View {
                suspects,
                lease_deadline_ns,
                ..View::default()
            },
            0,
        )
        .unwrap();
    }

    pub fn suspect(&self, addr: Addr, flags: u32) {
        let mut map: HashMap<_, Addr, Suspect> = Map::HashMap(self.map("SUSPECTS")).try_into().unwrap();
        map.insert(
            addr,
            Suspect {
                flags,
                dead_uid: DEAD,
                ..Suspect::default()
            },
            0,
        )
        .unwrap();
        self.set_view(1, boot_ns() + 60_000_000_000);
    }

    pub fn serve(&self, addr: Addr, port: u16, protocol: u8) {
        let mut map: HashMap<_, Vip, Slot> = Map::HashMap(self.map("SERVICES")).try_into().unwrap();
        map.insert(
            Vip {
                addr,
                port,
                protocol,
                reserved: 0,
            },
            SLOT,
            0,
        )
        .unwrap();
    }

    pub fn deny(&self, addr: Addr, port: u16, protocol: u8, reason: Reason, uid_state: UidState) {
        let mut map: HashMap<_, Target, Denial> = Map::HashMap(self.map("DENIED")).try_into().unwrap();
        let target = Target {
            addr,
            slot: SLOT,
            port,
            protocol,
            reserved: [0; 3],
        };
        let denial = Denial {
            dead_uid: DEAD,
            owner_uid: OWNER,
            boot_id: Uid::NONE,
            reason,
            uid_state,
            held: 0,
        };
        map.insert(target, denial, 0).unwrap();
    }

    /// Runs a program over a frame; what it answers, and the frame afterwards.
    pub fn run(&mut self, program: &str, frame: &[u8]) -> (u32, Vec<u8>) {
        let program: &mut SchedClassifier = self
            .datapath
            .ebpf
            .program_mut(program)
            .unwrap()
            .try_into()
            .unwrap();
        let mut after = vec![0; frame.len() + 64];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut after),
            repeat: 1,
            ..TestRunOptions::default()
        };
        let result = program.test_run(options).unwrap();
        after.truncate(result.data_size_out as usize);
        (result.return_value, after)
    }

    /// Nanoseconds a packet, over a million.
    pub fn cost(&mut self, program: &str, frame: &[u8]) -> u128 {
        let program: &mut SchedClassifier = self
            .datapath
            .ebpf
            .program_mut(program)
            .unwrap()
            .try_into()
            .unwrap();
        let run = || {
            let options = TestRunOptions {
                data_in: Some(frame),
                repeat: 1_000_000,
                ..TestRunOptions::default()
            };
            program.test_run(options).unwrap().duration.as_nanos()
        };
        std::iter::repeat_with(run).take(5).min().unwrap()
    }

    /// What was counted, without zeros.
    pub fn counted(&self) -> Vec<(Reason, Outcome, u64)> {
        let map: PerCpuHashMap<_, Counter, Count> =
            Map::PerCpuHashMap(self.map("COUNTERS")).try_into().unwrap();
        let mut counted: Vec<_> = map
            .iter()
            .map(Result::unwrap)
            .map(|(key, cpus)| {
                (
                    key.reason,
                    key.outcome,
                    cpus.iter().map(|count| count.packets).sum(),
                )
            })
            .filter(|(_, _, packets)| *packets > 0)
            .collect();
        counted.sort_unstable();
        counted
    }

    /// All events so far.
    pub fn events(&mut self) -> Vec<Event> {
        let mut ring: RingBuf<_> = Map::RingBuf(self.map("EVENTS")).try_into().unwrap();
        std::iter::from_fn(|| ring.next().map(|item| events::parse(&item).unwrap())).collect()
    }

    /// Overwrites part of a value with any bytes, as a person with bpftool could.
    pub fn scribble(&self, map: &str, key: &[u8], value: &[u8]) {
        let hex = |bytes: &[u8]| {
            bytes
                .iter()
                .map(|byte| format!("{byte:#04x}"))
                .collect::<Vec<_>>()
        };
        let path = self.pins.join("v1").join(map);
        let mut command = Command::new("bpftool");
        command
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .args(["map", "update", "pinned"])
            .arg(path);
        command.arg("key").args(hex(key)).arg("value").args(hex(value));
        assert!(command.status().unwrap().success());
    }

    pub fn pins(&self) -> PathBuf {
        self.pins.join("v1")
    }

    fn map(&self, name: &str) -> MapData {
        MapData::from_pin(self.pins.join("v1").join(name)).unwrap()
    }

    fn count_everything(&self) {
        let mut map: PerCpuHashMap<_, Counter, Count> =
            Map::PerCpuHashMap(self.map("COUNTERS")).try_into().unwrap();
        let cpus = aya::util::nr_cpus().unwrap();
        for (reason, outcome) in Reason::ALL.into_iter().flat_map(|r| Outcome::ALL.map(|o| (r, o))) {
            let zero = aya::maps::PerCpuValues::try_from(vec![Count::default(); cpus]).unwrap();
            map.insert(Counter { reason, outcome }, zero, 0).unwrap();
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.pins).status();
        let _ = std::fs::remove_dir(&self.pins);
    }
}
