//! epguard's programs on a node of the lab, with tables written by hand.

use nix::libc;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use epguard::kernel::cilium::Cilium;
use epguard::kernel::conntrack::{entry_at, nfct_at};
use epguard::kernel::datapath::{Datapath, Hooks};
use epguard::kernel::maps::{Writer, default_modes};
use epguard::node::netlink::request::{AnswerMessage, NetlinkRequest};
use epguard::node::netlink::{Interface, Roles};
use epguard_common::{
    Action, Denial, DenialKey, Mode, Outcome, RawRole, Reason, ServiceNumber, Suspect, Uid,
    UidState, Vip,
};
use epguard_core::state::Tables;
use rtnetlink::packet_core::{NLM_F_DUMP, ParseableParametrized as _};
use rtnetlink::packet_route::RouteNetlinkMessage;

use crate::counters::Counters;
use crate::net::NetNs;
use crate::workdir::Workdir;

/// TCP and UDP.
const PROTOCOLS: [u8; 2] = [6, 17];

/// The loaded programs and their maps. Dropping it detaches them.
pub struct Programs {
    /// The programs, and where they are attached.
    pub datapath: Datapath,
    /// Writes the maps.
    pub writer: Writer,
    node: NetNs,
    /// The interfaces that the agent would hook. The uplink `eth0` is the last one.
    interfaces: Vec<(u32, String)>,
    workdir: Workdir,
}

impl Programs {
    /// Loads the programs on a node, with a lease without end, and hooks nothing. `prepare` adds
    /// what not every node has.
    pub fn load(
        node: &NetNs,
        prepare: impl FnOnce(Datapath) -> Result<Datapath> + Send,
    ) -> Result<Self> {
        let workdir = Workdir::new()?;
        let pins = workdir.pins().join("epguard");
        let mut datapath =
            node.run(|| prepare(Datapath::load(&pins, Hooks::Auto, nfct_at()?)?))??;
        let mut writer = Writer::new(&mut datapath.ebpf)?;
        let links = links(node)?;
        let mut roles = Roles::default();
        let uplinks = links.iter().filter(|link| link.name == "eth0");
        roles.set_defaults(uplinks.map(|link| link.ifindex).collect::<BTreeSet<_>>());
        let hooked = links.iter().filter(|link| roles.add(link).is_some());
        let mut interfaces: Vec<_> = hooked
            .map(|link| (link.ifindex, link.name.clone()))
            .collect();
        interfaces.sort_by_key(|(_, name)| name == "eth0");
        for (ifindex, role) in roles.numbers(|ifindex| roles.role(ifindex).is_some()) {
            // No other program is on the node.
            let bridge = if roles.is_bridge(ifindex) {
                RawRole::BRIDGE
            } else {
                0
            };
            let number = role as u32 | RawRole::TAKES_ANSWERS | bridge;
            writer.set_role(ifindex, Some(RawRole { number }))?;
        }
        let entry_at = entry_at()?.context("this kernel has no conntrack entries to read")?;
        writer.view.change(|view| view.entry_at = entry_at)?;
        writer.view.renew_lease(u64::MAX)?;
        Ok(Self {
            datapath,
            writer,
            node: node.clone(),
            interfaces,
            workdir,
        })
    }

    /// Switches the mode.
    pub fn set_mode(&mut self, mode: Mode) -> Result<()> {
        self.writer.config.configure(mode, default_modes(), false)
    }

    /// Hooks the interfaces that the agent would hook.
    pub fn hook(&mut self) -> Result<()> {
        self.node.run(|| {
            let mut all = self.interfaces.iter();
            all.try_for_each(|(ifindex, name)| self.datapath.hook(*ifindex, name).map(drop))
        })?
    }

    /// Removes all hooks.
    pub fn unhook(&mut self) -> Result<()> {
        self.node.run(|| {
            for (ifindex, _) in &self.interfaces {
                self.datapath.unhook(*ifindex);
            }
            self.datapath.detach_leaving()
        })?
    }

    /// Lets the programs look up maps of Cilium's shapes that are pinned in this folder.
    pub fn read_cilium(&mut self, pins: &Path) -> Result<()> {
        let mut cilium = Cilium::new(pins, &self.workdir.pins().join("epguard"));
        let looks_up = cilium.follow(Instant::now())?;
        self.writer
            .view
            .change(|view| view.cilium = looks_up.into())
    }

    /// Numbers and names of the node's interfaces.
    pub fn interfaces(&self) -> &[(u32, String)] {
        &self.interfaces
    }

    /// The last of them, which leads out of the node.
    pub fn uplink(&self) -> (u32, String) {
        self.interfaces.last().cloned().unwrap_or_default()
    }

    /// Packets counted with any of these outcomes, for any reason.
    pub fn packets(&self, outcomes: &[Outcome]) -> Result<u64> {
        let counters = Counters::read(&self.workdir.pins().join("epguard"))?;
        Ok(outcomes
            .iter()
            .map(|outcome| counters.with_outcome(*outcome))
            .sum())
    }
}

/// Denies a Service an endpoint, over TCP and UDP, as `reused`.
pub fn deny(tables: &mut Tables, service: ServiceNumber, endpoint: SocketAddr) {
    let addr = endpoint.ip().into();
    tables.suspects.insert(
        addr,
        Suspect {
            flags: Suspect::DENIED,
            ..Suspect::default()
        },
    );
    for protocol in PROTOCOLS {
        let key = DenialKey {
            addr,
            service,
            port: endpoint.port(),
            protocol,
            reserved: 0,
        };
        let denial = Denial {
            dead_uid: Uid { octets: [0xdd; 16] },
            owner_uid: Uid { octets: [0x0e; 16] },
            boot_id: Uid::NONE,
            reason: Reason::Reused,
            uid_state: UidState::Dead,
            mode: Mode::Enforce,
            stopped: 0,
            action: Action::Unset,
        };
        tables.denied.insert(key, denial);
    }
}

/// Gives a Service's address its number, over TCP and UDP.
pub fn number(tables: &mut Tables, service: ServiceNumber, vip: SocketAddr) {
    for protocol in PROTOCOLS {
        let vip = Vip {
            addr: vip.ip().into(),
            port: vip.port(),
            protocol,
            reserved: 0,
        };
        tables.services.insert(vip, service);
    }
}

/// The links of a node, as the agent sees them.
fn links(node: &NetNs) -> Result<Vec<Interface>> {
    // An all-zero `struct ifinfomsg`.
    let request = NetlinkRequest::new(
        libc::NETLINK_ROUTE as _,
        libc::RTM_GETLINK,
        NLM_F_DUMP,
        &[0; 16],
    );
    node.io(|| request.ask(add_link))
        .context("cannot list the node's links")
}

/// Adds the link of a message of the kernel.
fn add_link(links: &mut Vec<Interface>, message: &AnswerMessage<'_>) {
    let parsed = RouteNetlinkMessage::parse_with_param(message.payload(), message.message_type());
    if let Ok(RouteNetlinkMessage::NewLink(link)) = parsed {
        let link = Interface::from(link);
        links.push(Interface {
            base_kind: Some(link.kind.clone()),
            ..link
        });
    }
}
