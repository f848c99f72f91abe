//! Denials, written by hand.

use epguard_common::{
    Action, Addr, Denial, DenialKey, Mode, Reason, ServiceNumber, Suspect, Uid, UidState, Vip,
};
use epguard_core::state::Tables;
use std::net::SocketAddrV4;

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
