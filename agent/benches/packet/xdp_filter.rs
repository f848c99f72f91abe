//! xdp-filter of xdp-tools, loaded by its own command and with entries in its own maps.

use aya::maps::{Map, MapData, PerCpuHashMap};
use aya::programs::ProgramInfo;
use epguard_common::Addr;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Command, Stdio};

/// Its pins, in the mount namespace of this thread.
const PINS: &str = "/sys/fs/bpf/xdp-filter";

pub fn is_installed() -> bool {
    command("xdp-filter").arg("help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Loads it at a new interface of this network namespace. It drops packets to these addresses; all others pass.
pub fn load(interface: &str, addresses: &[Addr]) -> OwnedFd {
    crate::kernel::fresh_bpffs();
    run("ip", &["link", "add", interface, "type", "veth"]);
    run("xdp-filter", &["load", "--mode", "skb", "--features", "ipv4,ipv6", "--policy", "allow", interface]);
    let (v4, v6): (Vec<Addr>, Vec<Addr>) = addresses.iter().partition(|addr| addr.is_v4());
    let octets = |addr: IpAddr| match addr {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(_) => unreachable!("partitioned"),
    };
    fill("filter_ipv4", &v4, |addr| octets(addr.ip()));
    fill("filter_ipv6", &v6, |addr| addr.octets);
    let program = format!("{PINS}/programs/{interface}/xdpfilt_alw_ip");
    ProgramInfo::from_pin(program).unwrap().fd().unwrap().as_fd().try_clone_to_owned().unwrap()
}

/// Adds the first address by its command, and the others with the same value.
fn fill<K: aya::Pod>(map: &str, addresses: &[Addr], key: impl Fn(&Addr) -> K) {
    let [first, others @ ..] = addresses else { return };
    run("xdp-filter", &["ip", "--mode", "dst", &first.ip().to_string()]);
    let data = MapData::from_pin(format!("{PINS}/{map}")).unwrap();
    let mut map: PerCpuHashMap<_, K, u64> = Map::PerCpuHashMap(data).try_into().unwrap();
    let values = map.get(&key(first), 0).unwrap();
    for other in others {
        let values = values.to_vec().try_into().unwrap();
        map.insert(key(other), values, 0).unwrap();
    }
}

/// Runs a program to its end.
pub fn run(program: &str, arguments: &[&str]) {
    let status = command(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}
