//! Namespaces alone: processes and listeners in them.

use std::io::Read;
use std::net::TcpStream;

use epguard_lab::net::{NetNs, Topology, TopologyOptions};

#[test]
#[ignore = "needs root: makes network namespaces"]
fn a_command_runs_inside_with_the_mounts_of_outside() {
    let netns = NetNs::new("alone").unwrap();
    let seen = |command: &mut std::process::Command| {
        let output = command.arg("/proc/self/ns/net").arg("/proc/self/ns/mnt").output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (inside, outside) =
        (seen(&mut netns.command("readlink")), seen(&mut std::process::Command::new("readlink")));
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
    assert!(format!("{refusal:#}").contains("192.0.2.1:0"), "{refusal:#}");
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
