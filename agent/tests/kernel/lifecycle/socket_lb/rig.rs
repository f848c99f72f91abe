//! A pod's network namespace, a load balancer that sends it to a stranger, and the programs beside
//! it.

use super::*;
use epguard::kernel::maps::{self, Writer};
use std::net::{Ipv4Addr, SocketAddrV4};

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
const SERVICE: ServiceNumber = ServiceNumber { number: 20 };
const LIVE: Uid = Uid { octets: [0x11; 16] };
/// The Service that has the denial, and one that has none.
pub const VIP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 96, 0, 7), 80);
pub const OTHER_VIP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 96, 0, 8), 80);

/// What the tests share. Load balancers are dropped first: then the cgroups can go.
pub struct Rig {
    pub balancers: Vec<Balancer>,
    pub datapath: Datapath,
    pub writer: Writer,
    pub node: Node,
    pub root: Root,
}

impl Rig {
    /// Calls for both Services go to `endpoint`. Nothing is denied yet.
    pub fn new(endpoint: SocketAddrV4) -> Self {
        Self::on(Node::new(), endpoint)
    }

    /// The same on a node that is there.
    pub fn on(node: Node, endpoint: SocketAddrV4) -> Self {
        let root = Root::new();
        let balancers = [VIP, OTHER_VIP].map(|vip| Balancer::attach(&root.path, vip, endpoint));
        let mut datapath = node.load(Hooks::Auto).with_cgroup(Some(root.path.clone()));
        datapath.hook(ifindex("pod"), "pod").unwrap();
        follow(&mut datapath);
        let mut writer = Writer::new(&mut datapath.ebpf).unwrap();
        writer.config.configure(Mode::Enforce, ALL, false).unwrap();
        writer.view.renew_lease(u64::MAX).unwrap();
        writer.view.judge_by_socket(true, Some(true)).unwrap();
        let mut rig = Self {
            balancers: balancers.into(),
            datapath,
            writer,
            node,
            root,
        };
        rig.act(Action::Drop);
        rig
    }

    pub fn act(&mut self, action: Action) {
        let limits = AnswerLimits {
            per_suspect: 1_000,
            per_node: 10_000,
        };
        let actions = PerReason::all(action);
        self.writer
            .config
            .change(|config| Config {
                actions,
                limits,
                ..config
            })
            .unwrap();
    }

    /// From now on the Service at [`VIP`] denies the endpoint. Its flows may go to `live`.
    pub fn deny(
        &mut self,
        endpoint: SocketAddrV4,
        uid_state: UidState,
        live: Option<SocketAddrV4>,
    ) {
        let mut tables = Tables::default();
        tables.suspects.insert(
            addr(endpoint),
            Suspect {
                flags: Suspect::DENIED,
                ..Suspect::default()
            },
        );
        for protocol in [TCP, UDP] {
            tables.services.insert(vip(VIP, protocol), SERVICE);
            let key = DenialKey {
                addr: addr(endpoint),
                service: SERVICE,
                port: endpoint.port(),
                protocol,
                reserved: 0,
            };
            tables.denied.insert(key, denial(Reason::Reused, uid_state));
            if let Some(live) = live {
                let backend = Backend {
                    addr: addr(live),
                    uid: LIVE,
                    port: live.port(),
                    reserved: 0,
                };
                tables.backends.insert(key, Backends::new(false, [backend]));
            }
        }
        if let Some(live) = live {
            let owner = Owner {
                uid: LIVE,
                ..Owner::default()
            };
            let owners = [(addr(live), owner)].into_iter().collect();
            self.writer
                .install_owners(&owners, &[addr(live)].into(), usize::MAX);
        }
        self.writer.install(&tables).unwrap();
        self.writer.view.renew_lease(u64::MAX).unwrap();
    }

    /// In the pod: in its network namespace and its cgroup.
    pub fn in_pod<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let root = &self.root;
        self.node.in_peer(|| {
            ip(&format!("route replace default via {OWN}"));
            inside(root, act)
        })
    }

    /// How many calls and packets with this reason ended like this.
    pub fn count(&self, reason: Reason, outcome: Outcome) -> Count {
        maps::counters(&self.node.pins()).unwrap()[&(reason, outcome)]
    }

    /// Another process detaches a program of ours.
    pub fn sever(&self, program: &str) {
        let links = std::fs::read_dir(self.node.pins().join("v3/links")).unwrap();
        let mut pins = links.map(|entry| entry.unwrap().path());
        let pin = pins
            .find(|pin| pin.to_str().unwrap().ends_with(program))
            .unwrap();
        run(
            "bpftool",
            &["link", "detach", "pinned", pin.to_str().unwrap()],
        );
    }
}

/// Follows the load balancer until it is hooked: one look attaches or ends, the next one repairs,
/// the third one is content.
pub fn follow(datapath: &mut Datapath) {
    let in_force = (0..3).any(|_| datapath.follow_socket_lb().unwrap());
    assert!(in_force, "{:?}", datapath.socket_lb());
}

const ALL: PerReason<Mode> = PerReason::all(Mode::Enforce);

fn addr(at: SocketAddrV4) -> Addr {
    Addr::v4(at.ip().octets())
}

fn vip(at: SocketAddrV4, protocol: u8) -> Vip {
    Vip {
        addr: addr(at),
        port: at.port(),
        protocol,
        reserved: 0,
    }
}
