//! The real datapath on a node of the lab, with tables written by hand.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use epguard::kernel::conntrack::{entry_at, nfct_at};
use epguard::kernel::datapath::{Datapath, Hooks as DatapathHooks};
use epguard::kernel::maps::{self, Writer};
use epguard::node::netlink::{Interface, Roles};
use epguard::shared::clock::boot_ns;
use epguard_common::{Mode, Outcome};
use epguard_core::state::Tables;
use epguard_lab::net::NetNs;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// Attached programs and their maps. Dropping it detaches everything.
pub(crate) struct Hooks {
    pub(crate) datapath: Datapath,
    pub(crate) writer: Writer,
    pins: Pins,
}

impl Hooks {
    /// Loads the datapath and hooks the interfaces that the agent would hook.
    pub(crate) fn attach(node: &NetNs) -> Self {
        let pins = Pins::new();
        let interfaces = interfaces(node);
        let path = pins.0.clone();
        let (datapath, writer) = node
            .run(|| {
                let mut datapath = Datapath::load(&path, DatapathHooks::Auto, nfct_at().unwrap()).unwrap();
                let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
                let mut roles = Roles::default();
                let uplink = interfaces.iter().filter(|link| link.name == "eth0");
                roles.set_defaults(uplink.map(|link| link.ifindex).collect::<BTreeSet<_>>());
                for link in &interfaces {
                    if roles.add(link).is_some() {
                        datapath.hook(link.ifindex, &link.name).unwrap();
                    }
                }
                for (ifindex, role) in roles.numbers(|ifindex| roles.role(ifindex).is_some()) {
                    writer.set_role(ifindex, Some(role)).unwrap();
                }
                writer.view.renew_lease(boot_ns() + 3_600_000_000_000).unwrap();
                writer.view.change(|view| view.entry_at = entry_at().unwrap().unwrap()).unwrap();
                (datapath, writer)
            })
            .unwrap();
        Self { datapath, writer, pins }
    }

    /// Replaces the tables.
    pub(crate) fn install(&mut self, tables: &Tables) {
        self.writer.install(tables).unwrap();
    }

    /// Switches the mode.
    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.writer.config.configure(mode, maps::default_modes(), false).unwrap();
    }

    /// Packets counted with any of these outcomes, for any reason.
    pub(crate) fn packets(&self, outcomes: &[Outcome]) -> u64 {
        let counters = maps::counters(&self.pins.0).unwrap();
        let wanted = counters.iter().filter(|((_, outcome), _)| outcomes.contains(outcome));
        wanted.map(|(_, count)| count.packets).sum()
    }
}

/// A BPF file system of its own.
struct Pins(PathBuf);

impl Pins {
    fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("epguard-conntrack-{}-{serial}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        mount(Some("bpf"), &path, Some("bpf"), MsFlags::empty(), None::<&str>).unwrap();
        Self(path)
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn interfaces(node: &NetNs) -> Vec<Interface> {
    let listed = node.command("ip").args(["-json", "-details", "link", "show"]).output().unwrap();
    let links: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let number = |link: &serde_json::Value| u32::try_from(link["ifindex"].as_u64().unwrap()).unwrap();
    let named = |name: &serde_json::Value| links.iter().find(|link| link["ifname"] == *name).map(number);
    links
        .iter()
        .map(|link| Interface {
            ifindex: number(link),
            name: text(&link["ifname"]),
            kind: text(&link["linkinfo"]["info_kind"]),
            base_kind: Some(text(&link["linkinfo"]["info_kind"])),
            master: named(&link["master"]),
            master_kind: text(&link["linkinfo"]["info_slave_kind"]),
            loopback: text(&link["link_type"]) == "loopback",
            ..Interface::default()
        })
        .collect()
}
