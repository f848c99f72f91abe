//! epguard's programs on the node, with tables written by hand: loaded once, hooked and unhooked.

use super::bed::Bed;
use ::epguard::kernel::conntrack::{entry_at, nfct_at};
use ::epguard::kernel::datapath::{Datapath, Hooks, Xdp};
use ::epguard::kernel::maps::{Writer, default_modes};
use aya::programs::Xdp as Program;
use epguard_common::{Mode, Outcome, Role};
use epguard_core::state::Tables;
use epguard_lab::net::NetNs;
use epguard_lab::scenario::counters::Counters;
use epguard_lab::scenario::workdir::Workdir;
use nix::net::if_::if_nametoindex;

/// The loaded programs and their maps.
pub(crate) struct Epguard {
    datapath: Datapath,
    writer: Writer,
    node: NetNs,
    interfaces: Vec<(u32, String)>,
    workdir: Workdir,
}

impl Epguard {
    /// Hooks nothing.
    pub(crate) fn new(bed: &Bed) -> Self {
        let workdir = Workdir::new().unwrap();
        let node = bed.node().clone();
        let load = || {
            let datapath =
                Datapath::load(&workdir.pins().join("epguard"), Hooks::Auto, nfct_at().unwrap()).unwrap();
            let mut datapath = datapath.with_xdp(Xdp::Driver).unwrap();
            let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
            let interfaces = bed.interfaces().into_iter();
            let interfaces: Vec<_> = interfaces.map(|name| (if_nametoindex(&*name).unwrap(), name)).collect();
            for (ifindex, name) in &interfaces {
                let role = if name == "eth0" { Role::Uplink } else { Role::Pod };
                writer.set_role(*ifindex, Some(role)).unwrap();
            }
            (datapath, writer, interfaces)
        };
        let (datapath, mut writer, interfaces) = node.run(load).unwrap();
        writer.view.change(|view| view.entry_at = entry_at().unwrap().unwrap()).unwrap();
        writer.view.renew_lease(u64::MAX).unwrap();
        Self { datapath, writer, node, interfaces, workdir }
    }

    /// Hooks all interfaces, in this mode and with these tables.
    pub(crate) fn hook(&mut self, mode: Mode, tables: &Tables) {
        self.writer.config.configure(mode, default_modes(), false).unwrap();
        self.writer.install(tables).unwrap();
        // As the agent does: until then redirected flows of an earlier agent may go on, and each packet is judged.
        self.writer.sweep_flows().unwrap();
        let hook = || {
            for (ifindex, name) in &self.interfaces {
                self.datapath.hook(*ifindex, name).unwrap();
            }
        };
        self.node.run(hook).unwrap();
    }

    /// Attaches the XDP program to the uplink too.
    pub(crate) fn hook_xdp(&mut self) {
        let (ifindex, name) = self.interfaces.last().unwrap();
        let hook = || self.datapath.hook_xdp(*ifindex, name).map(drop);
        self.node.run(hook).unwrap().unwrap();
    }

    /// Removes what [`Epguard::hook`] and [`Epguard::hook_xdp`] have hooked.
    pub(crate) fn unhook(&mut self) {
        let unhook = || {
            for (ifindex, _) in &self.interfaces {
                self.datapath.unhook(*ifindex);
            }
            self.datapath.detach_leaving().unwrap();
        };
        self.node.run(unhook).unwrap();
    }

    /// Packets that the programs have dropped.
    pub(crate) fn dropped(&self) -> u64 {
        let counters = Counters::read(&self.workdir.pins().join("epguard"));
        counters.unwrap().with_outcome(Outcome::Dropped)
    }

    /// The XDP program. Without [`Epguard::hook`] it passes all frames.
    pub(crate) fn xdp(&mut self) -> &mut Program {
        let program = self.datapath.ebpf.program_mut("epguard_xdp").unwrap();
        program.try_into().unwrap()
    }
}
