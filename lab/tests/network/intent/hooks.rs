//! The real datapath on a node of the lab, with tables written by hand.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use aya::maps::{HashMap, Map, MapData};
use epguard::daemon::args::cgroup2_mount;
use epguard::kernel::datapath::{Datapath, Hooks as DatapathHooks, Scope, netns_cookie};
use epguard::kernel::maps::{self, Writer};
use epguard::node::netlink::{Interface, Selection};
use epguard::shared::clock::boot_ns;
use epguard_common::{CARRIER_ALL, Keyed, Mode, Outcome, SocketIntent};
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
    /// Loads the datapath and hooks the node's sockets and the interfaces that the agent would hook.
    pub(crate) fn attach(node: &NetNs) -> Self {
        let pins = Pins::new();
        let interfaces = interfaces(node);
        let path = pins.0.clone();
        let (datapath, writer) = node
            .run(|| {
                let mut datapath = Datapath::load(&path, DatapathHooks::Auto).unwrap();
                for link in interfaces
                    .iter()
                    .filter(|link| Selection::default().role(link).is_some())
                {
                    datapath.hook(link.ifindex, &link.name).unwrap();
                }
                let scope = Scope::ChildrenOf(cgroup2_mount().unwrap());
                datapath.hook_sockets(scope).unwrap();
                let mut writer = Writer::new(&mut datapath.ebpf, netns_cookie().unwrap()).unwrap();
                writer.renew_lease(boot_ns() + 3_600_000_000_000).unwrap();
                writer.permit(CARRIER_ALL, false).unwrap();
                (datapath, writer)
            })
            .unwrap();
        Self {
            datapath,
            writer,
            pins,
        }
    }

    /// Replaces the tables.
    pub(crate) fn install(&mut self, tables: &Tables) {
        self.writer.install(tables).unwrap();
    }

    /// Runs `work` with the hooks of sockets detached, and attaches them again.
    pub(crate) fn while_nobody_follows_sockets(&mut self, work: impl FnOnce()) {
        let links = std::fs::read_dir(self.pins.0.join("v2/links")).unwrap();
        let pins = links.map(|link| link.unwrap().path());
        for pin in pins.filter(|pin| pin.to_string_lossy().contains("-epguard_connect")) {
            let mut bpftool = std::process::Command::new("/usr/sbin/bpftool");
            let detached = bpftool.args(["link", "detach", "pinned"]).arg(pin).status();
            assert!(detached.unwrap().success());
        }
        work();
        if !self.datapath.follow_sockets().unwrap() {
            self.writer.forget_sockets().unwrap();
        }
    }

    /// Switches the mode.
    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.writer.configure(mode, maps::default_modes(), false).unwrap();
    }

    /// Packets counted with any of these outcomes, for any reason.
    pub(crate) fn packets(&self, outcomes: &[Outcome]) -> u64 {
        let counters = maps::counters(&self.pins.0).unwrap();
        let wanted = counters
            .iter()
            .filter(|((_, outcome), _)| outcomes.contains(outcome));
        wanted.map(|(_, count)| count.packets).sum()
    }

    /// Number of the node's sockets in SOCKETS.
    pub(crate) fn sockets(&self) -> usize {
        let map = Map::LruHashMap(maps::open(&self.pins.0, "SOCKETS").unwrap());
        let map: HashMap<MapData, u64, Keyed<u64, SocketIntent>> = map.try_into().unwrap();
        map.keys().count()
    }
}

/// A BPF file system of its own.
struct Pins(PathBuf);

impl Pins {
    fn new() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("epguard-intent-{}-{serial}", std::process::id()));
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
    let listed = node
        .command("ip")
        .args(["-json", "-details", "link", "show"])
        .output()
        .unwrap();
    let links: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    links
        .iter()
        .map(|link| Interface {
            ifindex: u32::try_from(link["ifindex"].as_u64().unwrap()).unwrap(),
            name: text(&link["ifname"]),
            kind: text(&link["linkinfo"]["info_kind"]),
            base_kind: Some(text(&link["linkinfo"]["info_kind"])),
            master_kind: text(&link["linkinfo"]["info_slave_kind"]),
            loopback: text(&link["link_type"]) == "loopback",
            ..Interface::default()
        })
        .collect()
}
