//! epguard's programs on a node of the lab, with tables written by hand.

use epguard::kernel::conntrack::nfct_at;
use epguard::kernel::datapath::{Datapath, Hooks};
use epguard::kernel::maps::{Writer, default_modes};
use epguard_common::{
    Action, Addr, Denial, DenialKey, Mode, Reason, Role, ServiceNumber, Suspect, Uid, UidState, Vip,
};
use epguard_core::state::Tables;
use epguard_lab::net::NetNs;
use nix::net::if_::if_nametoindex;
use std::net::SocketAddrV4;
use std::path::Path;

/// The loaded programs and their maps.
pub(crate) struct Epguard {
    pub(crate) datapath: Datapath,
    pub(crate) writer: Writer,
    node: NetNs,
    /// The uplink `eth0` is the last one.
    pub(crate) interfaces: Vec<(u32, String)>,
}

impl Epguard {
    /// Loads the programs for these interfaces of a node, and hooks none of them.
    pub(crate) fn load(
        node: &NetNs,
        pins: &Path,
        interfaces: Vec<String>,
        prepare: impl Fn(Datapath) -> Datapath + Send + Sync,
    ) -> Self {
        let load = || prepare(Datapath::load(pins, Hooks::Auto, nfct_at().unwrap()).unwrap());
        let mut datapath = node.run(load).unwrap();
        let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
        let numbered = |name: String| (if_nametoindex(&*name).unwrap(), name);
        let interfaces = node.run(|| interfaces.into_iter().map(numbered).collect::<Vec<_>>()).unwrap();
        for (ifindex, name) in &interfaces {
            let role = if name == "eth0" { Role::Uplink } else { Role::Pod };
            writer.set_role(*ifindex, Some(role)).unwrap();
        }
        writer.view.renew_lease(u64::MAX).unwrap();
        Self { datapath, writer, node: node.clone(), interfaces }
    }

    /// Writes mode and tables.
    pub(crate) fn install(&mut self, mode: Mode, tables: &Tables) {
        self.writer.config.configure(mode, default_modes(), false).unwrap();
        self.writer.install(tables).unwrap();
        // As the agent does: until then redirected flows of an earlier agent may go on, and each packet is judged.
        self.writer.sweep_flows().unwrap();
    }

    /// Hooks all interfaces.
    pub(crate) fn hook(&mut self) {
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

    /// Removes all hooks.
    pub(crate) fn unhook(&mut self) {
        let unhook = || {
            for (ifindex, _) in &self.interfaces {
                self.datapath.unhook(*ifindex);
            }
            self.datapath.detach_leaving().unwrap();
        };
        self.node.run(unhook).unwrap();
    }
}

/// TCP and UDP.
const PROTOCOLS: [u8; 2] = [6, 17];

/// Denies the Service with this IP an endpoint.
pub(crate) fn deny(tables: &mut Tables, service: u32, vip: SocketAddrV4, endpoint: SocketAddrV4) {
    let service = ServiceNumber { number: service };
    let addr = Addr::v4(endpoint.ip().octets());
    tables.suspects.or_default(addr).flags = Suspect::DENIED;
    for protocol in PROTOCOLS {
        let of = Vip { addr: Addr::v4(vip.ip().octets()), port: vip.port(), protocol, reserved: 0 };
        tables.services.insert(of, service);
        let key = DenialKey { addr, service, port: endpoint.port(), protocol, reserved: 0 };
        let denial = Denial {
            dead_uid: Uid { octets: [0xdd; 16] },
            owner_uid: Uid { octets: [0x0e; 16] },
            boot_id: Uid::NONE,
            reason: Reason::Reused,
            uid_state: UidState::Dead,
            mode: Mode::Enforce,
            held: 0,
            action: Action::Unset,
        };
        tables.denied.insert(key, denial);
    }
}
