//! Tests against the kernel: each has a network namespace that ends with its thread.

use super::*;
use epguard_common::Addr;
use epguard_core::facts::Cidr;
use nix::libc;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::watch;

const VETH: &str = "link add index 70 va type veth peer name vb index 71\n";

/// Runs `test` on the events that `send` sends, in a new network namespace.
fn in_namespace(
    send: impl AsyncFnOnce(mpsc::Sender<NetworkChange>) + Send + 'static,
    test: impl AsyncFnOnce(Receiver<NetworkChange>) + Send + 'static,
) {
    let thread = std::thread::spawn(move || {
        // SAFETY: unshare takes no pointers; it only changes the calling thread.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(async {
            let (tx, rx) = mpsc::channel(1);
            tokio::select! {
                () = send(tx) => panic!("the receiver is there"),
                done = tokio::time::timeout(Duration::from_mins(1), test(rx)) => done.expect("an event is missing"),
            }
        });
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `test` on the events after the first lists, in a new network namespace.
fn followed(test: impl AsyncFnOnce(Receiver<NetworkChange>) + Send + 'static) {
    in_namespace(follow, async |mut rx| {
        until(&mut rx, |event| *event == NetworkChange::Settled).await;
        test(rx).await;
    });
}

/// Runs commands of `ip`, one per line. They block the runtime, so their effects are seen together.
fn ip(commands: &str) {
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    ip.stdin
        .take()
        .unwrap()
        .write_all(commands.as_bytes())
        .unwrap();
    assert!(ip.wait().unwrap().success(), "{commands}");
}

async fn next(rx: &mut Receiver<NetworkChange>) -> NetworkChange {
    rx.recv().await.expect("follow goes on")
}

async fn appeared(rx: &mut Receiver<NetworkChange>, name: &str) -> Interface {
    match next(rx).await {
        NetworkChange::Appeared(interface) if interface.name == name => interface,
        event => panic!("{event:?} instead of the appearance of {name}"),
    }
}

async fn gone(rx: &mut Receiver<NetworkChange>, ifindex: u32) {
    assert_eq!(next(rx).await, NetworkChange::Gone { ifindex });
}

async fn both_appeared(rx: &mut Receiver<NetworkChange>) {
    appeared(rx, "va").await;
    appeared(rx, "vb").await;
}

async fn both_gone(rx: &mut Receiver<NetworkChange>) {
    gone(rx, 70).await;
    gone(rx, 71).await;
}

async fn addresses(rx: &mut Receiver<NetworkChange>, list: &[&str]) {
    let list = list
        .iter()
        .map(|ip| Addr::from(ip.parse::<std::net::IpAddr>().unwrap()));
    assert_eq!(next(rx).await, NetworkChange::Addresses(list.collect()));
}

#[test]
#[ignore = "needs root: makes a network namespace"]
fn existing_interfaces_are_sent_before_settled() {
    in_namespace(follow, async |mut rx| {
        let mut seen = vec![];
        loop {
            match next(&mut rx).await {
                NetworkChange::Settled => break,
                event => seen.push(event),
            }
        }
        assert!(
            matches!(&seen[0], NetworkChange::Appeared(lo) if lo.loopback && lo.name == "lo"),
            "{seen:?}"
        );
        assert_eq!(seen.last(), Some(&NetworkChange::Addresses(vec![])));
    });
}

#[test]
#[ignore = "needs root: makes a network namespace"]
fn a_veth_is_followed_through_a_bridge_and_a_new_name_to_its_end_even_if_another_one_takes_its_place()
 {
    followed(async |mut rx| {
        ip(VETH);
        let va = appeared(&mut rx, "va").await;
        assert_eq!(
            (va.ifindex, va.kind.as_str(), va.loopback),
            (70, "veth", false)
        );
        appeared(&mut rx, "vb").await;

        ip("link add index 72 cni0 type bridge\nlink set va master cni0");
        appeared(&mut rx, "cni0").await;
        ip("link set va nomaster\nlink del cni0");
        gone(&mut rx, 72).await;

        ip("link set va name vc");
        gone(&mut rx, 70).await;
        assert_eq!(appeared(&mut rx, "vc").await.ifindex, 70);

        ip("link del vc");
        both_gone(&mut rx).await;

        ip(VETH);
        both_appeared(&mut rx).await;
        ip(&format!("link del va\n{VETH}"));
        both_gone(&mut rx).await;
        both_appeared(&mut rx).await;
    });
}

#[test]
#[ignore = "needs root: makes a network namespace"]
fn addresses_come_as_one_list_without_loopback_link_local_and_peers() {
    followed(async |mut rx| {
        ip(
            "link set lo up\nlink add index 70 va type veth peer name vb index 71\nlink set va up\nlink set vb up",
        );
        both_appeared(&mut rx).await;
        ip(
            "addr add 10.9.0.1/24 dev va\naddr add 169.254.7.7/16 dev va\naddr add 10.9.1.1 peer 10.9.1.2/32 dev vb",
        );
        addresses(&mut rx, &["10.9.0.1", "10.9.1.1"]).await;
        ip("addr add 10.9.2.1/32 dev lo\naddr add fd00::9/64 dev va");
        addresses(&mut rx, &["10.9.0.1", "10.9.1.1", "10.9.2.1", "fd00::9"]).await;
        ip("addr del 10.9.0.1/24 dev va");
        addresses(&mut rx, &["10.9.1.1", "10.9.2.1", "fd00::9"]).await;
        ip("link del va");
        both_gone(&mut rx).await;
        addresses(&mut rx, &["10.9.2.1"]).await;
    });
}

#[test]
#[ignore = "needs root: makes a network namespace"]
fn an_overrun_of_announcements_loses_no_interface() {
    followed(async |mut rx| {
        let adds = (0..200).map(|n| format!("link add va{n} type veth peer name vb{n}\n"));
        ip(&adds.collect::<String>());
        let sockets = std::fs::read_to_string("/proc/thread-self/net/netlink").unwrap();
        let drops = sockets
            .lines()
            .filter_map(|line| line.split_whitespace().nth(8)?.parse::<u32>().ok());
        assert!(drops.sum::<u32>() > 0, "no overrun: {sockets}");
        for _ in 0..400 {
            let event = next(&mut rx).await;
            assert!(matches!(event, NetworkChange::Appeared(_)), "{event:?}");
        }
    });
}

#[test]
#[ignore = "needs root: makes a network namespace"]
fn vips_of_services_on_kube_ipvs0_and_nodelocaldns_are_no_addresses_of_the_node() {
    followed(async |mut rx| {
        ip(
            "link add kube-ipvs0 type bridge\nlink add nodelocaldns type bridge\nlink add eth9 type bridge",
        );
        for name in ["kube-ipvs0", "nodelocaldns", "eth9"] {
            appeared(&mut rx, name).await;
        }
        let mut vips = String::new();
        for last in 1..=200 {
            let _ = writeln!(vips, "address add 10.96.0.{last}/32 dev kube-ipvs0");
        }
        vips.push_str(
            "address add 10.96.1.10/32 dev nodelocaldns\naddress add 198.51.100.7/24 dev eth9\n",
        );
        ip(&vips);
        addresses(&mut rx, &["198.51.100.7"]).await;
    });
}

#[test]
#[ignore = "needs root: makes a network namespace"]
fn routes_to_parts_of_a_range_are_sent_while_it_is_asked_about_and_default_routes_always() {
    let (ask, asked) = watch::channel(vec![]);
    in_namespace(
        async move |tx| presence(tx, asked).await,
        async move |mut rx| {
            let rx = &mut rx;
            ip(
                "link add index 70 va type veth peer name vb\naddress add 10.9.0.1/24 dev va\nlink set va up\n\
             route add 10.244.1.10/32 via 10.9.0.2 table 100\nroute add default via 10.9.0.2 table 100",
            );
            until(rx, |event| {
                *event == NetworkChange::Defaults(BTreeSet::new())
            })
            .await;
            ip("route add default via 10.9.0.2");
            assert_eq!(
                next(rx).await,
                NetworkChange::Defaults(BTreeSet::from([70])),
                "no routes are asked about"
            );
            ask.send(cidrs(&["10.244.1.0/24"])).unwrap();
            until(rx, |event| leads_to(event, &["10.244.1.10/32"])).await;
            ip("route add 10.244.1.64/26 via 10.9.0.2");
            let announced = next(rx).await;
            assert_eq!(
                announced,
                NetworkChange::Announced(cidrs(&["10.244.1.64/26"])),
                "at once"
            );
            ip("route delete 10.244.1.64/26 via 10.9.0.2\nroute add 10.245.1.64/26 via 10.9.0.2");
            until(rx, |event| leads_to(event, &["10.244.1.10/32"])).await;
            ask.send(vec![]).unwrap();
            until(rx, |event| *event == NetworkChange::Routes(None)).await;
        },
    );
}

fn cidrs(texts: &[&str]) -> Vec<Cidr> {
    texts
        .iter()
        .map(|text| Cidr::parse(text).unwrap())
        .collect()
}

fn leads_to(event: &NetworkChange, wanted: &[&str]) -> bool {
    matches!(event, NetworkChange::Routes(Some(routes)) if routes.parts() == cidrs(wanted))
}

async fn until(rx: &mut Receiver<NetworkChange>, wanted: impl Fn(&NetworkChange) -> bool) {
    while !wanted(&next(rx).await) {}
}
