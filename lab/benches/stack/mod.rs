//! Traffic through a node with epguard, and with what people use instead, beside the same node
//! without.
//!
//! A client pod uses a Service whose endpoint is another pod of the node. kube-proxy's rules and
//! conntrack are there in each setup. The stale IPs are not those of the measured traffic.

mod absorb;
mod bed;
mod filters;
mod loads;

use crate::bpf::{self, Kind};
use aya_obj::generated::bpf_attach_type::BPF_TCX_EGRESS;
use bed::Bed;
use epguard::kernel::datapath::Xdp;
use epguard::kernel::datapath::bpf::{Target, link_create};
use epguard_common::{Mode, Outcome};
use epguard_core::state::Tables;
use epguard_lab::figures::{Row, Table, in_turns};
use epguard_lab::programs::Programs;
use filters::Filter;
use loads::LOADS;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

/// What is on the node beside kube-proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setup {
    Nothing,
    /// A program that passes every packet, where epguard's egress hook is: what the kernel takes
    /// for any.
    Empty,
    /// epguard with nothing to deny.
    Idle,
    /// The same, with the ingress hooks that redirected flows need.
    BothHooks,
    /// epguard with the stale IPs.
    Active(Mode),
    /// The same, with XDP at the uplink.
    Xdp,
    Filter(Filter),
}

/// The row that the others are compared with.
const WITHOUT: &str = "without epguard";
const SETUPS: [(&str, Setup); 8] = [
    (WITHOUT, Setup::Nothing),
    ("an empty program at the egress hooks", Setup::Empty),
    ("epguard, idle", Setup::Idle),
    ("epguard, idle, with ingress hooks", Setup::BothHooks),
    (
        "epguard, observe, 2,000 stale IPs",
        Setup::Active(Mode::Observe),
    ),
    (
        "epguard, enforce, 2,000 stale IPs",
        Setup::Active(Mode::Enforce),
    ),
    (
        "nftables set in prerouting, same IPs",
        Setup::Filter(Filter::Nftables),
    ),
    (
        "ipset in prerouting, same IPs",
        Setup::Filter(Filter::Ipset),
    ),
];

/// A table for each load, and those of [`absorb`].
pub(crate) fn tables(quick: bool) -> Vec<Table> {
    epguard_lab::process::pin_to_processor().unwrap();
    let mut stage = Stage::new();
    let samples = in_turns(if quick { 3 } else { 150 }, SETUPS.len(), |row| {
        stage.set(SETUPS[row].1);
        LOADS.map(|load| load.rate(&stage.bed, Duration::from_millis(30)))
    });
    let mut tables: Vec<Table> = LOADS.iter().map(|load| Table::new(load.title)).collect();
    for ((name, setup), samples) in SETUPS.into_iter().zip(samples) {
        let limit = matches!(setup, Setup::Idle | Setup::Active(_)).then_some(0.99);
        for ((table, load), samples) in tables.iter_mut().zip(LOADS).zip(samples) {
            table.rows.push(
                Row::new(name, load.unit, samples)
                    .beside(WITHOUT)
                    .at_least(limit),
            );
        }
    }
    tables.extend(absorb::tables(&mut stage, if quick { 3 } else { 25 }));
    tables
}

/// A node that has one setup at a time.
struct Stage {
    bed: Bed,
    epguard: Programs,
    stale: Tables,
    /// Links of the empty program, while it is there.
    empty: Vec<OwnedFd>,
    now: Setup,
}

impl Stage {
    fn new() -> Self {
        let bed = Bed::new();
        let epguard =
            Programs::load(bed.node(), |datapath| datapath.with_xdp(Xdp::Driver)).unwrap();
        let stale = filters::denied();
        Self {
            bed,
            epguard,
            stale,
            empty: Vec::new(),
            now: Setup::Nothing,
        }
    }

    /// Changes the node to this setup.
    fn set(&mut self, setup: Setup) {
        match self.now {
            Setup::Nothing => {}
            Setup::Empty => self.empty.clear(),
            Setup::Idle | Setup::BothHooks | Setup::Active(_) | Setup::Xdp => {
                self.epguard.unhook().unwrap();
            }
            Setup::Filter(filter) => filter.remove(&self.bed),
        }
        self.epguard
            .datapath
            .want_ingress(setup == Setup::BothHooks);
        match setup {
            Setup::Nothing => {}
            Setup::Empty => {
                self.empty = self.bed.node().run(|| attach_empty(&self.epguard)).unwrap();
            }
            Setup::Idle | Setup::BothHooks => self.hook(Mode::Enforce, &Tables::default()),
            Setup::Active(mode) => self.hook(mode, &self.stale.clone()),
            Setup::Xdp => {
                self.hook(Mode::Enforce, &self.stale.clone());
                let (ifindex, name) = self.epguard.uplink();
                self.bed
                    .node()
                    .run(|| self.epguard.datapath.hook_xdp(ifindex, &name).map(drop))
                    .unwrap()
                    .unwrap();
            }
            Setup::Filter(filter) => filter.add(&self.bed),
        }
        self.now = setup;
    }

    fn hook(&mut self, mode: Mode, tables: &Tables) {
        self.epguard.set_mode(mode).unwrap();
        self.epguard.writer.install(tables).unwrap();
        // As the agent does: until then redirected flows of an earlier agent may go on, and each
        // packet is judged.
        self.epguard.writer.sweep_flows().unwrap();
        self.epguard.hook().unwrap();
    }

    /// Packets that epguard's programs have dropped.
    fn dropped(&self) -> u64 {
        self.epguard.packets(&[Outcome::Dropped]).unwrap()
    }

    fn xdp(&self) -> BorrowedFd<'_> {
        let program = self.epguard.datapath.ebpf.program("epguard_xdp").unwrap();
        program.fd().unwrap().as_fd()
    }
}

fn attach_empty(epguard: &Programs) -> Vec<OwnedFd> {
    let empty = bpf::empty(Kind::Tc);
    let interfaces = epguard.interfaces().iter();
    let link = |(ifindex, _): &(u32, String)| {
        link_create(
            empty.as_fd(),
            Target::Interface(*ifindex),
            BPF_TCX_EGRESS,
            0,
        )
        .unwrap()
    };
    interfaces.map(link).collect()
}
