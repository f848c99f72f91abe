//! Services lead to their backends as with kube-proxy, for every kind of client, and with any
//! delay.

use std::time::Duration;

use super::cluster::{Cluster, PROTOCOLS, on_every_cni_and_family};
use epguard_lab::proxy::{Protocol, ProxyOptions};
use epguard_lab::traffic::{Client, ClientCall, Outcome};

const SECOND: Duration = Duration::from_secs(1);

#[test]
#[ignore = "needs root: makes network namespaces"]
fn a_service_leads_to_local_and_remote_backends_from_everywhere() {
    on_every_cni_and_family(|cluster| {
        let local = (cluster.pod(1, 3), "shop/local");
        let remote = (cluster.pod(2, 3), "shop/remote");
        let vip = cluster.vip();
        let node_port = cluster.node_port("node-a");
        let pods = &["shop/client", "node-a"];
        let hosts = &["node-b", "external", "node-a", "shop/client"];
        for (masquerade_all, (backend, pod), to, clients) in [
            // A pod reaches itself, and the external host routes a cluster IP to the node.
            (
                false,
                local,
                vip,
                &["shop/client", "node-a", "shop/local", "external"][..],
            ),
            (false, remote, vip, pods),
            (false, local, node_port, hosts),
            (false, remote, node_port, hosts),
            (true, local, vip, pods),
            (true, remote, vip, pods),
        ] {
            cluster.program("node-a", &[backend], ProxyOptions { masquerade_all });
            for from in clients {
                cluster.answered_by(from, to, pod);
            }
        }
    });
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn calls_are_spread_over_the_backends() {
    on_every_cni_and_family(|cluster| {
        cluster.program(
            "node-a",
            &[cluster.pod(1, 3), cluster.pod(2, 3)],
            ProxyOptions::default(),
        );
        let replies: Vec<_> = (0..4)
            .map(|_| cluster.call("shop/client", Protocol::Tcp, cluster.vip()))
            .collect();
        let by = |pod: &str| {
            replies
                .iter()
                .filter(|reply| **reply == Outcome::Reply(pod.to_owned()))
                .count()
        };
        assert_eq!((by("shop/local"), by("shop/remote")), (2, 2), "{replies:?}");
    });
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn a_service_without_backends_refuses() {
    on_every_cni_and_family(|cluster| {
        cluster.program("node-a", &[], ProxyOptions::default());
        for (from, to) in [
            ("shop/client", cluster.vip()),
            ("node-a", cluster.vip()),
            ("node-b", cluster.node_port("node-a")),
        ] {
            for protocol in PROTOCOLS {
                assert_eq!(
                    cluster.call(from, protocol, to),
                    Outcome::Refused,
                    "{from} to {to}/{protocol:?}"
                );
            }
        }
    });
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn late_rules_and_direct_calls_lead_to_the_new_owner_of_the_address() {
    on_every_cni_and_family(|mut cluster| {
        let address = cluster.pod(1, 3);
        let vip = cluster.vip();
        let answered_by = |cluster: &Cluster, pod| {
            for (from, to) in [("shop/client", vip), ("node-a", vip), ("node-b", address)] {
                cluster.answered_by(from, to, pod);
                cluster.answered_by(from, address, pod);
            }
        };
        cluster.program("node-a", &[address], ProxyOptions::default());
        answered_by(&cluster, "shop/local");
        cluster.lab.remove_pod("shop/local").unwrap();
        cluster.serve("node-a", "bank/b", address.ip());
        answered_by(&cluster, "bank/b");
    });
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn an_established_flow_keeps_its_backend_when_rules_change() {
    on_every_cni_and_family(|cluster| {
        let proxy = cluster.program("node-a", &[cluster.pod(1, 3)], ProxyOptions::default());
        let client = Client::new(cluster.lab.netns("shop/client").unwrap());
        let open = |protocol| {
            client
                .open(ClientCall {
                    protocol,
                    to: cluster.vip(),
                    from: None,
                    timeout: SECOND,
                })
                .unwrap()
        };
        let mut flows = PROTOCOLS.map(open);
        let local = Outcome::Reply("shop/local".to_owned());
        assert!(
            flows
                .iter_mut()
                .all(|flow| flow.ask(SECOND).outcome == local)
        );
        cluster.program("node-a", &[cluster.pod(2, 3)], ProxyOptions::default());
        assert!(
            flows
                .iter_mut()
                .all(|flow| flow.ask(SECOND).outcome == local)
        );
        cluster.answered_by("shop/client", cluster.vip(), "shop/remote");
        proxy.program(&[]).unwrap();
        assert!(
            flows
                .iter_mut()
                .all(|flow| flow.ask(SECOND).outcome == local)
        );
    });
}

#[test]
#[ignore = "needs root: makes network namespaces"]
fn one_source_port_serves_many_destinations_at_once() {
    on_every_cni_and_family(|cluster| {
        cluster.program("node-a", &[cluster.pod(1, 3)], ProxyOptions::default());
        let client = Client::new(cluster.lab.netns("shop/client").unwrap());
        let from = std::net::SocketAddr::new(cluster.ip(1, 2), 45001);
        let destinations = [
            (cluster.vip(), "shop/local"),
            (cluster.pod(2, 3), "shop/remote"),
            (cluster.vip(), "shop/local"),
        ];
        for protocol in PROTOCOLS {
            for (to, pod) in destinations {
                let answer = client.call(ClientCall {
                    protocol,
                    to,
                    from: Some(from),
                    timeout: SECOND,
                });
                assert_eq!(
                    answer.outcome,
                    Outcome::Reply(pod.to_owned()),
                    "{to}/{protocol:?}"
                );
                assert_eq!(answer.local, Some(from));
            }
        }
        let peer = client.udp(from).unwrap();
        for (to, pod) in destinations {
            assert_eq!(
                peer.ask(to, SECOND).outcome,
                Outcome::Reply(pod.to_owned()),
                "{to}"
            );
        }
        cluster.program("node-a", &[], ProxyOptions::default());
        let closed = std::net::SocketAddr::new(cluster.ip(2, 3), 9);
        assert_eq!(peer.ask(closed, SECOND).outcome, Outcome::Refused);
        assert_eq!(
            peer.ask(cluster.pod(2, 3), SECOND).outcome,
            Outcome::Reply("shop/remote".to_owned())
        );
    });
}
