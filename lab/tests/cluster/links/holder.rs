//! An IP's new holder uses a link that is made again under its old name, or renamed at once, and no API object shows
//! it. From the moment of the node's route to it, none of its packets is denied.

use std::net::IpAddr;
use std::time::Duration;

use super::pelting::{Catching, Pelting};
use super::{DYING, await_hooks, node, stage};
use crate::stage::{dropped, until};
use epguard_lab::net::NetNs;
use epguard_lab::scenario::format::PodEvent;
use epguard_lab::scenario::stage::Stage;

/// As the lab's point-to-point CNI.
const HOST_MAC: &str = "ee:ee:ee:ee:ee:ee";
/// How many packets in a row have to arrive.
const IN_A_ROW: u64 = 200;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_holder_whose_veth_is_made_again_or_renamed_is_never_denied() {
    let mut stage = stage();
    let (node, pod) = (node(&stage), NetNs::new("holder").unwrap());
    let x = crate::stage::ip(&stage, "A0");
    let pelting = Pelting::from_far(&stage, x, Duration::from_micros(500));
    let mut denied = 0;
    for turn in 0..DYING {
        denied += dies(&mut stage, &format!("A{turn}"));
        let mut link = "holder".to_owned();
        plug(&node, &pod, &link, x);
        if turn % 2 == 1 {
            link = format!("renamed{turn}");
            let renamed = [
                format!("link set holder down name {link} up"),
                format!("route replace {x} dev {link} scope link"),
            ];
            node.ip(&renamed).unwrap();
        }
        receives_all(&stage, &pelting, &pod, x);
        await_hooks(&node, &link);
        node.ip(&[format!("link delete {link}")]).unwrap();
    }
    let sent = pelting.stop();
    println!(
        "{DYING} holders by veths made again or renamed: {sent} packets, {denied} denied while nobody held the IP, 0 of a holder's"
    );
}

/// A pod starts on X and dies there. Returns the number of packets denied until the first denial was seen.
fn dies(stage: &mut Stage, pod: &str) -> u64 {
    let before = dropped(stage);
    for event in [PodEvent::Starts, PodEvent::Fails] {
        stage.cluster.pod_event(pod, event).unwrap();
    }
    stage.catch_up().unwrap();
    until(&format!("{pod} is dead, and packets to it are denied"), || dropped(stage) > before);
    dropped(stage) - before
}

fn plug(node: &NetNs, pod: &NetNs, link: &str, x: IpAddr) {
    let peer = pod.name();
    let sandbox = [
        "link set lo up".to_owned(),
        format!("address add {x} dev eth0"),
        "link set eth0 up".to_owned(),
        format!("neighbour add 169.254.1.1 lladdr {HOST_MAC} dev eth0 nud permanent"),
        "route add default via 169.254.1.1 dev eth0 onlink".to_owned(),
    ];
    let host = [format!("link set {link} up"), format!("route replace {x} dev {link} scope link")];
    node.ip(&[format!("link add {link} address {HOST_MAC} type veth peer name eth0 netns {peer}")]).unwrap();
    pod.ip(&sandbox).unwrap();
    node.ip(&host).unwrap();
}

/// The node's route leads to the holder: after the first datagram that arrives, all later ones arrive.
fn receives_all(stage: &Stage, pelting: &Pelting, pod: &NetNs, at: IpAddr) {
    let before = dropped(stage);
    let catching = Catching::start(pod, at);
    let from = pelting.sent();
    let caught = catching.wait(|numbers| {
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
            return false;
        };
        // The last one may overtake others, on another CPU.
        let whole = numbers.len() as u64 == last - first + 1;
        whole && *last >= from + IN_A_ROW && last - first >= IN_A_ROW
    });
    let (first, last) = (caught.first(), caught.last());
    let (first, last) = first.zip(last).unwrap_or_else(|| panic!("nothing arrives: {}", stage.agent.log()));
    assert!(last - first >= IN_A_ROW / 2, "{first}..={last}");
    assert_eq!(caught.len() as u64, last - first + 1, "some are missing");
    assert_eq!(dropped(stage), before, "denied");
}
