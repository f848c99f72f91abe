//! Packets reach the pods they are addressed to, on every CNI and overlay; nothing is left behind.

use super::cluster::{Cluster, PROTOCOLS, on_every_cni_and_family};
use epguard_lab::net::{Cni, NetNs, Overlay, Topology, TopologyOptions};
use epguard_lab::proxy::Protocol;
use epguard_lab::traffic::{Client, ClientCall, Outcome};
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[test]
#[ignore = "needs root: makes network namespaces"]
fn a_pod_is_reached_from_everywhere_in_the_cluster() {
    on_every_cni_and_family(|cluster| {
        for from in ["shop/client", "node-a", "node-b", "shop/remote"] {
            cluster.answered_by(from, cluster.pod(1, 3), "shop/local");
            cluster.answered_by(from, cluster.pod(2, 3), "shop/remote");
        }
    });
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn pods_of_both_nodes_talk_over_vxlan() {
    for (cni, ipv6) in [
        (Cni::Ptp, false),
        (Cni::Ptp, true),
        (Cni::Bridge, false),
        (Cni::Bridge, true),
    ] {
        let cluster = Cluster::new(
            TopologyOptions {
                cni,
                overlay: Overlay::Vxlan,
            },
            ipv6,
        );
        cluster.answered_by("shop/client", cluster.pod(2, 3), "shop/remote");
        cluster.answered_by("node-a", cluster.pod(2, 3), "shop/remote");
        let device = cluster
            .lab
            .netns("node-a")
            .unwrap()
            .command("ip")
            .args(["-s", "link", "show", "flannel.1"])
            .output();
        let counters = String::from_utf8(device.unwrap().stdout).unwrap();
        let sent = counters
            .lines()
            .last()
            .and_then(|line| line.split_whitespace().next())
            .unwrap();
        assert!(
            sent.parse::<u64>().unwrap() > 0,
            "nothing went over the overlay: {counters}"
        );
    }
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn a_closed_port_refuses_and_an_unused_address_times_out_or_is_unreachable() {
    on_every_cni_and_family(|cluster| {
        for protocol in PROTOCOLS {
            let closed = SocketAddr::new(cluster.ip(1, 3), 9);
            assert_eq!(
                cluster.call("shop/client", protocol, closed),
                Outcome::Refused
            );
            let nobody = cluster.call("node-b", protocol, cluster.pod(1, 99));
            assert!(
                matches!(nobody, Outcome::TimedOut | Outcome::Unreachable),
                "{nobody}"
            );
        }
    });
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn a_killed_server_resets_its_clients_and_one_without_a_link_is_silent() {
    let mut cluster = Cluster::new(TopologyOptions::default(), false);
    let client = Client::new(cluster.lab.netns("shop/client").unwrap());
    let second = Duration::from_secs(1);
    let open = |to| {
        client
            .open(ClientCall {
                protocol: Protocol::Tcp,
                to,
                from: None,
                timeout: second,
            })
            .unwrap()
    };
    let mut killed = open(cluster.pod(1, 3));
    let mut cut = open(cluster.pod(2, 3));
    assert_eq!(
        killed.ask(second).outcome,
        Outcome::Reply("shop/local".to_owned())
    );
    assert_eq!(
        cut.ask(second).outcome,
        Outcome::Reply("shop/remote".to_owned())
    );
    drop(cluster.servers.remove(0));
    assert_eq!(killed.ask(second).outcome, Outcome::Reset);
    cluster.lab.remove_pod("shop/remote").unwrap();
    drop(cluster.servers.remove(0));
    assert_eq!(
        cut.ask(Duration::from_millis(300)).outcome,
        Outcome::TimedOut
    );
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn nothing_is_left_when_the_topology_is_dropped() {
    let cluster = Cluster::new(TopologyOptions::default(), true);
    let hosts = ["node-a", "node-b", "external", "shop/client", "shop/local"];
    let paths = hosts.map(|host| cluster.lab.netns(host).unwrap().path().to_owned());
    assert!(paths.iter().all(|path| path.exists()));
    drop(cluster);
    assert!(paths.iter().all(|path| !path.exists()), "{paths:?}");
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn leftovers_of_dead_processes_go_at_the_next_start() {
    let dead = {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let leftover = std::path::PathBuf::from(format!("/run/netns/epg{dead}-0-node-a"));
    std::fs::create_dir_all("/run/netns").unwrap();
    std::fs::write(&leftover, "").unwrap();
    let _lab = Topology::new(TopologyOptions::default()).unwrap();
    assert!(!leftover.exists());
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn bad_input_is_named_and_changes_nothing() {
    let bridge = TopologyOptions {
        cni: Cni::Bridge,
        ..TopologyOptions::default()
    };
    let mut cluster = Cluster::new(bridge, false);
    let mut refusal = |node, name, ip: &str| {
        cluster
            .lab
            .add_pod(node, name, &[ip.parse().unwrap()])
            .unwrap_err()
            .to_string()
    };
    assert!(
        refusal("node-d", "shop/x", "10.244.1.9").contains("there are node-a, node-b and node-c")
    );
    assert!(refusal("node-a", "shop/x", "10.244.2.9").contains("10.244.1.0/24"));
    assert!(refusal("node-a", "shop/local", "10.244.1.9").contains("already"));
    assert!(
        cluster
            .lab
            .remove_pod("shop/x")
            .unwrap_err()
            .to_string()
            .contains("no pod shop/x")
    );
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn a_command_runs_inside_with_the_mounts_of_outside() {
    let netns = NetNs::new("alone").unwrap();
    let seen = |command: &mut std::process::Command| {
        let output = command
            .arg("/proc/self/ns/net")
            .arg("/proc/self/ns/mnt")
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let inside = seen(&mut netns.command("readlink"));
    let outside = seen(&mut std::process::Command::new("readlink"));
    assert_ne!(inside[0], outside[0]);
    assert_eq!(inside[1], outside[1]);
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn a_listener_is_reached_inside_and_not_outside() {
    let lab = Topology::new(TopologyOptions::default()).unwrap();
    let node = lab.netns("node-a").unwrap();
    let listener = node.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    assert!(TcpStream::connect(address).is_err());
    let mut inside = node.run(|| TcpStream::connect(address)).unwrap().unwrap();
    drop(listener.accept().unwrap());
    assert_eq!(inside.read(&mut [0]).unwrap(), 0);
    let refusal = node.listen("192.0.2.1:0".parse().unwrap()).unwrap_err();
    assert!(
        format!("{refusal:#}").contains("192.0.2.1:0"),
        "{refusal:#}"
    );
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn the_name_goes_with_the_last_clone() {
    let netns = NetNs::new("shop/a-1").unwrap();
    let clone = netns.clone();
    let path = netns.path().to_owned();
    drop(netns);
    assert!(path.exists());
    drop(clone);
    assert!(!path.exists());
}
