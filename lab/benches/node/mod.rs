//! Time to start on a node of 250 interfaces and to take it over, and memory of maps and programs.
//!
//! Each round is a thread with network namespace and bpffs of its own.

mod under_load;

use super::bpf::{self as raw, Kind};
use super::programs::kernel;
use aya::maps::{HashMap, MapData};
use aya_obj::generated::BPF_F_BEFORE;
use aya_obj::generated::bpf_attach_type::{BPF_TCX_EGRESS, BPF_TCX_INGRESS};
use epguard::kernel::conntrack::nfct_at;
use epguard::kernel::datapath::bpf::{self, Target};
use epguard::kernel::datapath::{Datapath, Hooks};
use epguard::kernel::maps;
use epguard_common::{Addr, Owner};
use epguard_lab::figures::{Row, Table, in_turns};
use epguard_lab::net::NetNs;
use nix::net::if_::if_nametoindex;
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::Path;
use std::thread;
use std::time::Instant;

const INTERFACES: usize = 250;
/// Endpoints of a large cluster.
const OWNERS: u32 = 100_000;

const EMPTY: &str = "an empty TC program, attached to both hooks of 250 interfaces";
/// The second agent's programs replace those of the first in its pinned links.
const STEPS: [&str; 5] = [
    EMPTY,
    "epguard: programs loaded and verified",
    "epguard: attached to both hooks of 250 interfaces",
    "second agent: programs loaded and verified",
    "second agent: 250 interfaces taken over",
];

pub(crate) fn tables(quick: bool) -> Vec<Table> {
    let [rounds] = in_turns(if quick { 3 } else { 7 }, 1, |_| alone(start))
        .try_into()
        .unwrap();
    let mut times = Table::new("Start on a node of 250 interfaces");
    for (name, samples) in STEPS.into_iter().zip(rounds) {
        let row = Row::new(name, "ms", samples);
        times.rows.push(if name.contains("interfaces") {
            row.beside(EMPTY)
        } else {
            row
        });
    }
    vec![
        times,
        alone(memory),
        under_load::table(if quick { 1 } else { 3 }),
    ]
}

/// On a thread of its own: it leaves its namespaces behind.
fn alone<T: Send>(measure: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(measure).join()).unwrap()
}

/// Milliseconds of each of [`STEPS`] on a new node.
fn start() -> [f64; STEPS.len()] {
    let node = NetNs::new("start").unwrap();
    node.enter().unwrap();
    kernel::fresh_bpffs();
    let interfaces = make_interfaces(&node);
    let ((), empty) = timed(|| attach_empty(&interfaces));
    let (first, load) = timed(load_all);
    let (first, attach) = timed(|| hook(first, &interfaces));
    drop(first);
    let (second, load_again) = timed(load_all);
    let (_second, take_over) = timed(|| hook(second, &interfaces));
    [empty, load, attach, load_again, take_over]
}

fn timed<T>(step: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let result = step();
    (result, begun.elapsed().as_secs_f64() * 1e3)
}

fn load_all() -> Datapath {
    Datapath::load(Path::new(kernel::PIN_DIR), Hooks::Auto, nfct_at().unwrap()).unwrap()
}

fn hook(mut datapath: Datapath, interfaces: &[(u32, String)]) -> Datapath {
    for (number, name) in interfaces {
        datapath.hook(*number, name).unwrap();
    }
    datapath
}

/// Attaches an empty program as epguard does its own. It stays, and epguard's programs go before
/// it.
fn attach_empty(interfaces: &[(u32, String)]) {
    let program = raw::empty(Kind::Tc);
    for (number, name) in interfaces {
        for (hook, what) in [(BPF_TCX_INGRESS, "ingress"), (BPF_TCX_EGRESS, "egress")] {
            let target = Target::Interface(*number);
            let link = bpf::link_create(program.as_fd(), target, hook, BPF_F_BEFORE).unwrap();
            bpf::pin(
                link.as_fd(),
                &Path::new("/sys/fs/bpf").join(format!("{name}-{what}")),
            )
            .unwrap();
        }
    }
}

/// Numbers and names.
fn make_interfaces(node: &NetNs) -> Vec<(u32, String)> {
    let names: Vec<String> = (0..INTERFACES)
        .map(|number| format!("veth{number}"))
        .collect();
    let pairs = names
        .chunks(2)
        .map(|pair| format!("link add {} type veth peer name {}", pair[0], pair[1]));
    node.ip(&pairs.collect::<Vec<_>>()).unwrap();
    names
        .into_iter()
        .map(|name| (if_nametoindex(&*name).unwrap(), name))
        .collect()
}

/// Of maps and programs. Measured once, as it does not vary.
fn memory() -> Table {
    let mut datapath = kernel::load();
    let mut table = Table::new("Memory in the kernel (`memlock`)");
    let mut add = |name: &str, octets: u64| {
        let kib = f64::from(u32::try_from(octets / 1_024).unwrap());
        table.rows.push(Row::new(name, "KiB", [kib]));
    };
    let programs = datapath
        .ebpf
        .programs()
        .filter_map(|(_, program)| program.fd().ok());
    add(
        "programs at interfaces",
        programs.map(|program| memlock(program.as_fd())).sum(),
    );
    add(
        "maps, after the start",
        maps::NAMES.map(memory_of).iter().sum(),
    );
    let mut owners: HashMap<_, Addr, Owner> =
        datapath.ebpf.map_mut("OWNERS").unwrap().try_into().unwrap();
    for ip in 0..OWNERS {
        owners
            .insert(Addr::from_v4_word(ip), Owner::default(), 0)
            .unwrap();
    }
    add(
        "maps, with 100,000 endpoint IPs",
        maps::NAMES.map(memory_of).iter().sum(),
    );
    let mut largest = maps::NAMES.map(|name| (memory_of(name), name));
    largest.sort_unstable();
    for (octets, name) in largest.into_iter().rev().take(4) {
        add(&format!("of these, {name}"), octets);
    }
    table
}

fn memory_of(map: &str) -> u64 {
    let map = MapData::from_pin(maps::directory(Path::new(kernel::PIN_DIR)).join(map)).unwrap();
    memlock(map.fd().as_fd())
}

/// Octets, from the `memlock` of an open map or program.
fn memlock(object: BorrowedFd<'_>) -> u64 {
    let shown = fs::read_to_string(format!("/proc/self/fdinfo/{}", object.as_raw_fd())).unwrap();
    let line = shown.lines().find_map(|line| line.strip_prefix("memlock:"));
    line.unwrap().trim().parse().unwrap()
}
