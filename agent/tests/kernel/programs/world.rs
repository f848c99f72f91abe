//! Who is suspect, which Services are affected, and what is denied; `fill` writes it into the maps.

use super::frames::{SRC_V4, SRC_V6, SYN, TCP, frame, packet, tcp};
use super::rig::Rig;
use super::tracked::Tracked;
use super::wire::{self, Ip};
use epguard_common::{
    Action, Addr, AnswerLimits, Config, Denial, DenialKey, Mode, Reason, ReasonActions,
    ReasonModes, ServiceNumber, Suspect, Uid, UidState, Verdict, View, Vip,
};

/// Denied for every protocol at [`PORT`]: the pod is dead, another one has its IP.
pub const REUSED: Addr = Addr::v4([10, 244, 1, 10]);
/// As [`REUSED`].
pub const REUSED_V6: Addr = Addr::v6([0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10]);
/// Denied to new flows only.
pub const RETIRED: Addr = Addr::v4([10, 244, 1, 11]);
/// A terminating pod: suspect, not denied.
pub const DRAINING: Addr = Addr::v4([10, 244, 1, 12]);
/// Denied to [`SHOP`], but reached as [`BANK`].
pub const MOVED: Addr = Addr::v4([10, 244, 1, 13]);
/// Of an affected Service, no suspect.
pub const INNOCENT: Addr = Addr::v4([10, 244, 1, 14]);

pub const SHOP: ServiceNumber = ServiceNumber { number: 1 };
pub const BANK: ServiceNumber = ServiceNumber { number: 70_000 };

/// The Services' port, denied.
pub const PORT: u16 = 8080;
/// Another port of the same Services, not denied.
pub const OTHER_PORT: u16 = 9090;
/// From which all packets come.
pub const CLIENT_PORT: u16 = 40_000;
/// No Service's.
pub const NO_PORT: u16 = 7070;

pub const DEAD_UID: Uid = Uid { octets: [0xdd; 16] };
pub const OWNER_UID: Uid = Uid { octets: [0x0e; 16] };

pub const DENIED: Verdict = Verdict::Deny {
    reason: Reason::Reused,
    enforce: true,
};

const ALL: ReasonModes = ReasonModes::all(Mode::Enforce);

const DROP: ReasonActions = ReasonActions::all(Action::Drop);

/// Everything in force.
pub const ENFORCE: Config = Config {
    actions_from_config_map: 0,
    mode: Mode::Enforce,
    reasons: ALL,
    configured: ALL,
    actions: DROP,
    limits: AnswerLimits {
        per_suspect: 1_000,
        per_node: 10_000,
    },
    debug: 0,
    from_config_map: 0,
};

/// The lease never ends.
pub const FRESH: View = View {
    lease_deadline_ns: u64::MAX,
    suspects: 5,
    terminated: 0,
    flows: 0,
    entry_at: 0,
    cilium: 0,
    socket_lb: 0,
    socket_lb_epoch: 0,
    last_service: BANK.number,
    relays: 0,
    reserved: 0,
};

pub fn denial(reason: Reason, uid_state: UidState) -> Denial {
    Denial {
        dead_uid: DEAD_UID,
        owner_uid: OWNER_UID,
        boot_id: Uid::NONE,
        reason,
        uid_state,
        mode: Mode::Enforce,
        stopped: 0,
        action: Action::Unset,
    }
}

pub fn target(addr: Addr, protocol: u8) -> DenialKey {
    DenialKey {
        addr,
        service: SHOP,
        port: PORT,
        protocol,
        reserved: 0,
    }
}

pub fn suspect(flags: u32) -> Suspect {
    Suspect {
        flags,
        ..Suspect::default()
    }
}

/// The frame that opens a connection to an endpoint's port.
pub fn syn(endpoint: Addr) -> Vec<u8> {
    frame(&packet(endpoint, TCP, &tcp(PORT, SYN)))
}

/// Writes the world, in force and fresh.
pub fn fill(rig: &mut Rig) {
    put_suspects(rig);
    for protocol in [6, 17, 132] {
        for addr in [REUSED, REUSED_V6, RETIRED, DRAINING, INNOCENT] {
            rig.affect(&vip(addr, PORT, protocol), SHOP);
            rig.affect(&vip(addr, OTHER_PORT, protocol), SHOP);
        }
        rig.affect(&vip(MOVED, PORT, protocol), BANK);
        let reused = denial(Reason::Reused, UidState::Dead);
        for addr in [REUSED, REUSED_V6, MOVED, INNOCENT] {
            rig.deny(&target(addr, protocol), reused);
        }
        let retired = denial(Reason::RetiredBackend, UidState::Retired);
        rig.deny(&target(RETIRED, protocol), retired);
    }
    rig.configure(ENFORCE);
    rig.write_view(FRESH);
}

/// The address and port at which the Service of an endpoint is called.
pub fn vip(endpoint: Addr, port: u16, protocol: u8) -> Vip {
    Vip {
        addr: virtual_ip(endpoint),
        port,
        protocol,
        reserved: 0,
    }
}

/// Puts the suspects in with no events sent in this second.
pub fn put_suspects(rig: &mut Rig) {
    let denied = [REUSED, REUSED_V6, RETIRED, MOVED];
    for addr in denied {
        rig.put_keyed("SUSPECTS", &addr, suspect(Suspect::DENIED));
    }
    rig.put_keyed("SUSPECTS", &DRAINING, suspect(Suspect::DRAINING));
}

fn virtual_ip(endpoint: Addr) -> Addr {
    let mut addr = endpoint;
    let second = if endpoint.is_v4() { 13 } else { 1 };
    addr.octets[second] ^= 0x80;
    addr
}

/// conntrack's entry of a frame whose sender has called the endpoint's Service.
pub fn tracked(frame: &[u8]) -> Tracked {
    wire::read(frame).ip.map_or(Tracked::NONE, |ip| called(&ip))
}

fn called(ip: &Ip) -> Tracked {
    let client = Addr::from(ip.src);
    let endpoint = Addr::from(ip.dst);
    let has_ports = matches!(ip.protocol, 6 | 17 | 132);
    let (src, dst) = ip
        .ports
        .map_or((CLIENT_PORT, PORT), |ports| (ports.src, ports.dst));
    // Only protocols with ports are translated.
    let vip = if has_ports {
        virtual_ip(endpoint)
    } else {
        endpoint
    };
    Tracked::translated((client, src), (vip, dst), (endpoint, dst), ip.protocol)
}

/// From which all packets come.
pub fn client(pod: Addr) -> Addr {
    if pod.is_v4() {
        Addr::v4(SRC_V4)
    } else {
        Addr::v6(SRC_V6)
    }
}

/// The entry of the connections to the Service that is denied at the pod.
pub fn of(pod: Addr, protocol: u8) -> Tracked {
    let vip = vip(pod, PORT, protocol);
    Tracked::translated(
        (client(pod), CLIENT_PORT),
        (vip.addr, PORT),
        (pod, PORT),
        protocol,
    )
}
