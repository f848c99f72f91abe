//! The agent's process: what it uses, how far it is, and a memory cgroup of its own, which counts
//! the agent's maps, too.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use epguard::kernel::maps::{self, KeyedMap};
use epguard::shared::status::{self, Distribution, Request, Status};
use epguard_common::{Addr, DenialKey, RawDenial, Suspect};

use crate::world::World;

/// Longest wait for anything that the agent does.
const PATIENCE: Duration = Duration::from_mins(10);

pub(crate) struct Agent {
    pid: u32,
    run_dir: PathBuf,
    maps: Option<Maps>,
}

struct Maps {
    suspects: KeyedMap<Addr, Suspect>,
    denied: KeyedMap<DenialKey, RawDenial>,
}

impl Agent {
    pub(crate) fn of(world: &World) -> Self {
        Self {
            pid: world.pid(),
            run_dir: world.dir.clone(),
            maps: None,
        }
    }

    /// The status without names, whose cost grows with the cluster. None before the agent answers.
    pub(crate) fn figures(&self) -> Option<Status> {
        status::ask(&self.run_dir, &Request::Figures).ok()
    }

    /// Waits until the figures are as wanted, and asks every `pause`.
    pub(crate) fn until(
        &self,
        pause: Duration,
        description: &str,
        wanted: impl Fn(&Status) -> bool,
    ) {
        let begun = Instant::now();
        while !self.figures().is_some_and(|status| wanted(&status)) {
            let log = || fs::read_to_string(self.run_dir.join("agent.log")).unwrap_or_default();
            assert!(
                begun.elapsed() < PATIENCE,
                "the agent is not {description}: {}",
                log()
            );
            assert!(self.is_alive(), "the agent ended: {}", log());
            sleep(pause);
        }
    }

    fn is_alive(&self) -> bool {
        self.memory("VmRSS").is_some()
    }

    /// A line of `/proc/PID/status`, in octets. None if the process has ended.
    pub(crate) fn memory(&self, field: &str) -> Option<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        let kibibytes: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kibibytes * 1024.0)
    }

    /// Processor time of all threads so far, in seconds.
    pub(crate) fn processor(&self) -> f64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).unwrap();
        let times = threads.flatten().filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(times.sum()).as_secs_f64()
    }

    /// How long changes took from their receipt to the maps so far, by the agent's own record.
    pub(crate) fn receipts(&self) -> Distribution {
        self.figures().unwrap().figures.propagation
    }

    /// Waits until all these IPs are denied, and not stopped by the breaker. Returns how long that took.
    pub(crate) fn until_denied(&mut self, ips: &[Ipv4Addr], begun: Instant) -> Duration {
        let pins = self.run_dir.join("bpf/epguard");
        let maps = self.maps.get_or_insert_with(|| Maps::open(&pins));
        let ips: BTreeSet<Addr> = ips.iter().map(|ip| IpAddr::from(*ip).into()).collect();
        while !maps.deny(&ips) {
            assert!(begun.elapsed() < PATIENCE, "{ips:?} are not denied");
            sleep(Duration::from_micros(50));
        }
        begun.elapsed()
    }
}

impl Maps {
    fn open(pins: &Path) -> Self {
        Self {
            suspects: maps::open(pins, "SUSPECTS").unwrap(),
            denied: maps::open(pins, "DENIED").unwrap(),
        }
    }

    /// Whether all these IPs are in both maps. The first one is asked first, as that is quick.
    fn deny(&self, ips: &BTreeSet<Addr>) -> bool {
        if !ips.iter().all(|ip| self.suspects.get(ip).is_ok()) {
            return false;
        }
        let denied = self.denied.entries().unwrap_or_default().into_iter();
        let denied = denied.filter(|(_, denial)| denial.stopped == 0);
        let denied: BTreeSet<Addr> = denied.map(|(key, _)| key.addr).collect();
        ips.is_subset(&denied)
    }
}

/// The upper end, in milliseconds, of the bucket in which the quantile of what came between two
/// records lies.
pub(crate) fn quantile(before: &Distribution, after: &Distribution, percent: u64) -> f64 {
    let buckets = after.buckets.iter().zip(&before.buckets);
    let buckets = buckets
        .map(|((bound, after), (_, before))| (*bound, after - before))
        .collect();
    let between = Distribution {
        count: after.count - before.count,
        buckets,
        sum_us: 0,
    };
    let bound = between.percentile(percent);
    bound.map_or(f64::INFINITY, |bound| {
        Duration::from_micros(bound).as_secs_f64() * 1e3
    })
}

/// Of cgroup v1, then v2: the directory that cgroups are made in, the file of the current octets,
/// and that of the most.
const VERSIONS: [[&str; 3]; 2] = [
    [
        "/sys/fs/cgroup/memory",
        "memory.usage_in_bytes",
        "memory.max_usage_in_bytes",
    ],
    ["/sys/fs/cgroup", "memory.current", "memory.peak"],
];

pub(crate) struct Cgroup {
    path: PathBuf,
    now: &'static str,
    most: &'static str,
}

impl Cgroup {
    /// None where the kernel has no memory controller for it.
    pub(crate) fn new() -> Option<Self> {
        let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
        VERSIONS.into_iter().find_map(|[parent, now, most]| {
            let path = Path::new(parent).join(format!("epguard-scale-{}", std::process::id()));
            fs::create_dir(&path).ok()?;
            let made = Self { path, now, most };
            made.read(now).map(|_| made)
        })
    }

    /// Has the command's process start in it.
    pub(crate) fn hold(&self, command: &mut Command) {
        let processes = File::options()
            .write(true)
            .open(self.path.join("cgroup.procs"))
            .unwrap();
        // SAFETY: the closure makes the system call write alone, on an open file; it allocates
        // nothing.
        unsafe {
            command.pre_exec(move || io::Write::write_all(&mut &processes, b"0"));
        }
    }

    /// Octets now.
    pub(crate) fn now(&self) -> Option<f64> {
        self.read(self.now)
    }

    /// The most octets so far.
    pub(crate) fn most(&self) -> Option<f64> {
        self.read(self.most)
    }

    fn read(&self, file: &str) -> Option<f64> {
        fs::read_to_string(self.path.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}
