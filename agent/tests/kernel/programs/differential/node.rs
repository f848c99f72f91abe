//! A node whose routes lead everywhere: into a blackhole, off the node, to a pod, into a bridge.
//! XDP asks them.

use super::*;
use nix::net::if_::if_nametoindex;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

/// By the third octet, in IPv6 by the second one plus 1; see [`leads_away`].
const ROUTES: [(u8, &str); 4] = [
    (1, "blackhole"),
    (2, "via GATEWAY dev uplink"),
    (3, "dev pod"),
    (4, "dev bridge"),
];

/// Where frames meet the programs.
pub const LOOPBACK: u32 = 1;

/// The programs in a network namespace of their own, with empty maps.
pub fn rig() -> Rig {
    direct::node(&["link set lo up"]);
    for device in ["uplink", "pod", "bridge"] {
        ip(&format!(
            "link add {device} type veth peer name {device}-peer"
        ));
        ip(&format!("link set {device} up"));
        ip(&format!("link set {device}-peer up"));
    }
    ip("address add 10.99.0.2/24 dev uplink");
    ip("-6 address add fd99::2/64 dev uplink nodad");
    for (range, route) in ROUTES {
        for (family, range, gateway) in [
            ("-4", format!("10.244.{range}.0/24"), "10.99.0.1"),
            ("-6", format!("fd{:02x}::/16", range - 1), "fd99::1"),
        ] {
            match route {
                "blackhole" => ip(&format!("{family} route add blackhole {range}")),
                way => ip(&format!(
                    "{family} route add {range} {}",
                    way.replace("GATEWAY", gateway)
                )),
            }
        }
    }
    let mut rig = Rig::bare();
    for (device, role) in [
        ("uplink", Role::Uplink),
        ("pod", Role::Pod),
        ("bridge", Role::Bridge),
    ] {
        let ifindex = if_nametoindex(device).expect("an interface");
        rig.put_keyed("INTERFACES", &ifindex, RawRole::from(role));
    }
    rig.put(
        "MACS",
        &LOOPBACK,
        Mac {
            sends: 1,
            ..Mac::default()
        },
    );
    rig
}

/// Addresses that have a part in the tables: in each of the ranges of [`leads_away`], and in none.
pub static HOSTS: LazyLock<Vec<Addr>> = LazyLock::new(|| {
    let v4 = (1..=4).flat_map(|range| [10, 11].map(|host| Addr::v4([10, 244, range, host])));
    let v6 = (0..=3).flat_map(|range| {
        [0x10, 0x11]
            .map(|host| Addr::v6([0xfd, range, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]))
    });
    let others = [
        Addr::v4([10, 96, 0, 1]),
        Addr::v4([127, 0, 0, 77]),
        Addr::v4([224, 0, 0, 5]),
    ];
    // As 10.244.1.10, but for the prefix of v4-mapped addresses.
    let alike = Addr::v6([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 244, 1, 10]);
    v4.chain(v6).chain(others).chain([alike]).collect()
});

/// Whether the node's routes lead a packet off the node: by a gateway.
pub fn leads_away(src: IpAddr, dst: IpAddr) -> bool {
    match (src, dst) {
        (IpAddr::V4(_), IpAddr::V4(dst)) => dst.octets().starts_with(&[10, 244, 2]),
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            dst.octets().starts_with(&[0xfd, 1]) && is_forwarded(src)
        }
        _ => false,
    }
}

/// Whether they lead it to a device of the node, without a gateway.
pub fn leads_to_device(src: IpAddr, dst: IpAddr) -> bool {
    match (src, dst) {
        (IpAddr::V4(_), IpAddr::V4(dst)) => matches!(dst.octets(), [10, 244, 3 | 4, _]),
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            matches!(dst.octets(), [0xfd, 2 | 3, ..]) && is_forwarded(src)
        }
        _ => false,
    }
}

/// The kernel forwards no packet from such addresses (`rt6_need_strict`).
fn is_forwarded(src: Ipv6Addr) -> bool {
    !(src.is_multicast() || src.is_loopback() || src.is_unicast_link_local())
}
