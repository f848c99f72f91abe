//! A live endpoint that flows cannot be redirected to: its answers enter the node unseen, or large packets do not reach it.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use aya::maps::{HashMap, MapData};
use epguard::kernel::maps;
use epguard_common::{Keyed, RawRole};
use serde_json::Value;

use super::place::{connect, echo, stage};
use crate::stage::{ip, netns, until};
use epguard_lab::scenario::stage::Stage;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_flow_is_refused_at_once_if_its_answers_would_enter_where_nothing_translates_them_back() {
    let stage = stage();
    let live = echo(&stage, "L");
    assert!(connect(&stage, "old/web").is_ok());
    // A connection is there before the endpoint has taken it.
    until("the endpoint takes the connection", || live.load(Ordering::SeqCst) > 0);
    assert_eq!(live.load(Ordering::SeqCst), 1);
    forget_interface_of(&stage, "L");
    let error = connect(&stage, "old/web").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    assert_eq!(live.load(Ordering::SeqCst), 1);
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_connection_is_refused_if_the_way_to_the_live_endpoint_takes_smaller_packets() {
    let stage = stage();
    let _servers = (echo(&stage, "L"), echo(&stage, "B"));
    assert!(connect(&stage, "old/web").is_ok());
    let (interface, _) = interface_of(&stage, "L");
    netns(&stage, "node-a").ip(&[format!("link set {interface} mtu 1400")]).unwrap();
    let error = connect(&stage, "old/web").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
}

/// As INTERFACES is while the hooks of the pod's interface wait, or cannot be attached.
fn forget_interface_of(stage: &Stage, pod: &str) {
    let mut interfaces: HashMap<MapData, u32, Keyed<u32, RawRole>> =
        maps::open(stage.agent.pin_dir(), "INTERFACES").unwrap();
    interfaces.remove(&interface_of(stage, pod).1).unwrap();
}

/// Name and index of the interface that the node routes the pod's IP to.
fn interface_of(stage: &Stage, pod: &str) -> (String, u32) {
    let ip = ip(stage, pod).to_string();
    let show = |args: &[&str]| {
        let shown = netns(stage, "node-a").command("ip").arg("-json").args(args).output().unwrap();
        serde_json::from_slice::<Value>(&shown.stdout).unwrap()
    };
    let route = show(&["route", "get", &ip]);
    let name = route[0]["dev"].as_str().unwrap();
    let link = show(&["link", "show", "dev", name]);
    let ifindex = u32::try_from(link[0]["ifindex"].as_u64().unwrap()).unwrap();
    (name.to_owned(), ifindex)
}
