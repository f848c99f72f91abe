//! Single flows: each keeps its endpoint, its port and its room, and is refused where it could not
//! be carried.

use super::place::{ON_A_BRIDGE, address, call, connect, echo, stage, stage_with, taken};
use crate::stage::{ip, netns, until, vip};
use aya::maps::{HashMap, MapData};
use epguard_common::{Keyed, RawRole};
use epguard_lab::scenario::format::{Condition, PodEvent};
use epguard_lab::scenario::stage::Stage;
use socket2::{Domain, Socket, Type};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_redirected_flow_keeps_its_endpoint_and_is_reset_when_it_dies() {
    let mut stage = stage();
    let _servers = (echo(&stage, "L"), echo(&stage, "B"));
    let mut flow = connect(&stage, "old/web").unwrap();
    call(&mut flow).unwrap();

    // No client calls A any more, so nothing needs a denial; the flow goes on.
    let only_live = [("L".to_owned(), Condition::Ready)].into();
    stage.cluster.set_slice("old/web", &only_live).unwrap();
    stage.catch_up().unwrap();
    call(&mut flow).unwrap();

    // The next process restores it.
    stage.agent.kill();
    call(&mut flow).unwrap();
    stage.agent.start_again().unwrap();
    stage.catch_up().unwrap();
    call(&mut flow).unwrap();

    stage.cluster.pod_event("L", PodEvent::Fails).unwrap();
    stage.catch_up().unwrap();
    let begun = Instant::now();
    let error = call(&mut flow).unwrap_err();
    println!(
        "a flow whose endpoint died is told after {:.1?}: {error}",
        begun.elapsed()
    );
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

const CLIENT_PORT: u16 = 45_001;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_connection_to_the_live_endpoint_outlives_a_redirected_one_from_the_same_port() {
    outlives(&stage());
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_connection_from_the_port_of_a_redirected_one_survives_on_a_bridge() {
    outlives(&stage_with(&[ON_A_BRIDGE]));
}

fn outlives(stage: &Stage) {
    let _servers = (echo(stage, "L"), echo(stage, "B"));
    let mut older = from_port(stage, address(stage, "L")).unwrap();
    call(&mut older).unwrap();
    let refused = from_port(stage, vip(stage, "old/web")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
    call(&mut older).unwrap();
    // Another port is free.
    call(&mut connect(stage, "old/web").unwrap()).unwrap();
}

fn from_port(stage: &Stage, to: SocketAddr) -> std::io::Result<TcpStream> {
    let client = ip(stage, "client");
    netns(stage, "client")
        .run(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&SocketAddr::new(client, CLIENT_PORT).into())?;
            socket.connect_timeout(&to.into(), Duration::from_mins(1))?;
            socket.set_read_timeout(Some(Duration::from_mins(1)))?;
            Ok(TcpStream::from(socket))
        })
        .unwrap()
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_flow_is_refused_at_once_if_its_answers_would_enter_where_nothing_translates_them_back() {
    let stage = stage();
    let live = echo(&stage, "L");
    assert!(connect(&stage, "old/web").is_ok());
    // A connection is there before the endpoint has taken it.
    until("the endpoint takes the connection", || taken(&live) > 0);
    assert_eq!(taken(&live), 1);
    forget_interface_of(&stage, "L");
    let error = connect(&stage, "old/web").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    assert_eq!(taken(&live), 1);
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_connection_is_refused_if_the_way_to_the_live_endpoint_takes_smaller_packets() {
    let stage = stage();
    let _servers = (echo(&stage, "L"), echo(&stage, "B"));
    assert!(connect(&stage, "old/web").is_ok());
    let (interface, _) = interface_of(&stage, "L");
    netns(&stage, "node-a")
        .ip(&[format!("link set {interface} mtu 1400")])
        .unwrap();
    let error = connect(&stage, "old/web").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
}

/// As INTERFACES is while the hooks of the pod's interface wait, or cannot be attached.
fn forget_interface_of(stage: &Stage, pod: &str) {
    let interfaces = epguard::kernel::maps::open(&stage.agent.pin_dir, "INTERFACES");
    let mut interfaces: HashMap<MapData, u32, Keyed<u32, RawRole>> = interfaces.unwrap();
    interfaces.remove(&interface_of(stage, pod).1).unwrap();
}

/// Name and index of the node's end of the pod's veth pair.
fn interface_of(stage: &Stage, pod: &str) -> (String, u32) {
    let name = stage.cluster.topology.pod(pod).unwrap().host_ifname.clone();
    let ifindex = netns(stage, "node-a").run(|| nix::net::if_::if_nametoindex(&*name));
    (name.clone(), ifindex.unwrap().unwrap())
}
