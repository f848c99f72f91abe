//! Which flows and rules still lead to a pod that has ended. Pure. Nothing is stale unless the agent has the proof.

use super::conntrack::Flow;
use super::finding::{Finding, Kind};
use super::ipvs::Destination;
use super::known::{Aim, Known, Proof};
use super::rules::Rule;
use epguard_core::facts::Protocol;
use std::net::SocketAddr;

/// Judges a flow. One that was sent elsewhere is judged by its Service, any other by the IP itself.
pub fn flow(known: &Known, flow: &Flow) -> Option<Finding> {
    let (service, proof) = if flow.aim == flow.endpoint {
        (None, known.terminated.get(&flow.endpoint.ip())?)
    } else {
        let number = known.services.get(&(flow.aim, flow.protocol));
        let aim = number.map_or(Aim::Unknown, |number| Aim::Number(*number));
        let denied = known.denied(flow.endpoint, flow.protocol, aim)?;
        (aim.service(denied), &denied.proof)
    };
    Some(Finding {
        kind: Kind::Conntrack,
        service: service.cloned(),
        port: service.map(|_| flow.aim.port().to_string()),
        packets: flow.packets,
        connection: flow.state.map(Into::into),
        at: format!("{} -> {}", flow.client, flow.aim),
        ..finding(proof, flow.endpoint, flow.protocol)
    })
}

/// Judges a rule: a finding for each of its targets that is meant for a pod that has ended.
pub fn rule(known: &Known, rule: &Rule) -> Vec<Finding> {
    const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let concerned = |protocol: &Protocol| rule.protocol.is_none_or(|only| only == *protocol);
    let aim = rule.service.as_deref().map_or(Aim::Unknown, Aim::Service);
    let mut findings = Vec::new();
    for target in &rule.targets {
        for protocol in ALL.into_iter().filter(concerned) {
            findings.extend(known.denied(*target, protocol, aim).map(|denied| Finding {
                kind: rule.kind,
                service: aim.service(denied).cloned(),
                port: rule.port.clone(),
                packets: rule.packets,
                at: format!("{} {}", rule.table, rule.chain),
                ..finding(&denied.proof, *target, protocol)
            }));
        }
    }
    findings
}

/// Judges a destination of IPVS, by the Service whose address it serves.
pub fn destination(known: &Known, destination: &Destination) -> Option<Finding> {
    let number = known.services.get(&(destination.service, destination.protocol));
    let aim = number.map_or(Aim::Unknown, |number| Aim::Number(*number));
    let denied = known.denied(destination.endpoint, destination.protocol, aim)?;
    Some(Finding {
        kind: Kind::IpvsDestination,
        service: aim.service(denied).cloned(),
        port: Some(destination.service.port().to_string()),
        packets: destination.connections,
        at: format!("{} weight {}", destination.service, destination.weight),
        ..finding(&denied.proof, destination.endpoint, destination.protocol)
    })
}

fn finding(proof: &Proof, endpoint: SocketAddr, protocol: Protocol) -> Finding {
    Finding {
        state: proof.state,
        kind: Kind::Conntrack,
        service: None,
        port: None,
        endpoint,
        protocol: protocol.as_str().into(),
        meant: proof.meant.clone(),
        hit: proof.hit.clone(),
        reason: proof.reason,
        since: None,
        packets: None,
        connection: None,
        count: 1,
        at: String::new(),
        dead: proof.dead,
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::known::Denied;
    use super::*;
    use epguard_common::{Reason, ServiceNumber, Uid};

    const WEB: ServiceNumber = ServiceNumber { number: 7 };

    fn proof(reason: Reason) -> Proof {
        Proof {
            reason,
            state: State::Stale,
            dead: Uid::NONE,
            meant: "shop/a".into(),
            hit: (reason == Reason::Reused).then(|| "team-b/b".into()),
        }
    }

    /// shop/web (10.96.0.1:80) has a stale endpoint at 10.244.1.10:8080; no pod has 10.244.1.9.
    fn known(reason: Reason) -> Known {
        let denied = Denied {
            number: WEB,
            service: "shop/web".into(),
            proof: proof(reason),
        };
        Known {
            services: [((address("10.96.0.1:80"), Protocol::Tcp), WEB)].into(),
            denied: [((address("10.244.1.10:8080"), Protocol::Tcp), vec![denied])].into(),
            terminated: [(address("10.244.1.9:1").ip(), proof(Reason::Terminated))].into(),
        }
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn tcp(aim: &str, endpoint: &str) -> Flow {
        Flow {
            protocol: Protocol::Tcp,
            client: address("10.244.1.5:40000"),
            aim: address(aim),
            endpoint: address(endpoint),
            packets: Some(3),
            state: Some("ESTABLISHED"),
        }
    }

    fn dnat(service: Option<&str>, target: &str) -> Rule {
        Rule {
            table: "ip kube-proxy".into(),
            chain: "services".into(),
            kind: Kind::NftablesRule,
            service: service.map(str::to_owned),
            port: Some("http".into()),
            protocol: Some(Protocol::Tcp),
            packets: None,
            targets: vec![address("10.244.1.11:8080"), address(target)],
        }
    }

    #[test]
    fn a_flow_of_the_service_to_its_dead_pod_is_reported_with_both_pods() {
        let found = flow(&known(Reason::Reused), &tcp("10.96.0.1:80", "10.244.1.10:8080")).unwrap();
        assert_eq!(found.service.as_deref(), Some("shop/web"));
        assert_eq!(
            (found.meant.as_str(), found.hit.as_deref()),
            ("shop/a", Some("team-b/b"))
        );
        assert_eq!((found.reason, found.packets), (Reason::Reused, Some(3)));
        assert_eq!(found.at, "10.244.1.5:40000 -> 10.96.0.1:80");
        assert_eq!(
            (found.port.as_deref(), found.connection.as_deref()),
            (Some("80"), Some("ESTABLISHED"))
        );
    }

    #[test]
    fn a_flow_without_a_proof_of_the_agent_is_not_stale() {
        let known = known(Reason::DeadBackend);
        for (aim, endpoint) in [
            ("10.96.0.1:80", "10.244.1.11:8080"),
            ("10.96.0.1:80", "10.244.1.10:9090"),
            ("10.244.1.10:8080", "10.244.1.10:8080"),
        ] {
            assert_eq!(flow(&known, &tcp(aim, endpoint)), None, "{aim} {endpoint}");
        }
        let udp = Flow {
            protocol: Protocol::Udp,
            ..tcp("10.96.0.1:80", "10.244.1.10:8080")
        };
        assert_eq!(flow(&known, &udp), None);
        assert_eq!(rule(&known, &dnat(Some("shop/web"), "10.244.1.12:8080")), []);
    }

    #[test]
    fn flows_and_rules_may_lead_to_the_new_owner_of_an_ip_but_not_to_an_ip_without_owner() {
        for (reason, found) in [(Reason::Reused, 0), (Reason::DeadBackend, 1)] {
            let known = known(reason);
            // A flow to a VIP that has no denial, and a rule of an unknown Service.
            let other = tcp("192.168.0.1:30080", "10.244.1.10:8080");
            let services = |findings: Vec<Finding>| -> Vec<_> {
                findings.into_iter().map(|finding| finding.service).collect()
            };
            let unnamed = vec![None; found];
            assert_eq!(
                services(flow(&known, &other).into_iter().collect()),
                unnamed,
                "{reason:?}"
            );
            assert_eq!(
                services(rule(&known, &dnat(None, "10.244.1.10:8080"))),
                unnamed,
                "{reason:?}"
            );
            assert_eq!(rule(&known, &dnat(Some("team-b/shop"), "10.244.1.10:8080")), []);
        }
    }

    #[test]
    fn a_destination_of_ipvs_belongs_to_the_service_whose_address_it_serves() {
        let destination = |service: &str| Destination {
            service: address(service),
            protocol: Protocol::Tcp,
            endpoint: address("10.244.1.10:8080"),
            weight: 1,
            connections: Some(9),
        };
        let found = super::destination(&known(Reason::Reused), &destination("10.96.0.1:80")).unwrap();
        assert_eq!(
            (found.service.as_deref(), found.port.as_deref()),
            (Some("shop/web"), Some("80"))
        );
        assert_eq!(
            (found.packets, found.at.as_str()),
            (Some(9), "10.96.0.1:80 weight 1")
        );
        assert_eq!(
            super::destination(&known(Reason::Reused), &destination("10.96.0.2:80")),
            None
        );
    }

    #[test]
    fn a_direct_flow_is_stale_if_the_ip_has_no_owner() {
        let found = flow(&known(Reason::Reused), &tcp("10.244.1.9:53", "10.244.1.9:53")).unwrap();
        assert_eq!((found.reason, found.service), (Reason::Terminated, None));
    }

    #[test]
    fn a_stale_rule_is_reported_once_for_each_protocol_that_it_may_match() {
        let known = known(Reason::DeadBackend);
        let one = dnat(Some("shop/web"), "10.244.1.10:8080");
        let any = Rule {
            protocol: None,
            ..one.clone()
        };
        let udp = Rule {
            protocol: Some(Protocol::Udp),
            ..one.clone()
        };
        for (rule, found) in [(&one, 1), (&any, 1), (&udp, 0)] {
            assert_eq!(super::rule(&known, rule).len(), found, "{rule:?}");
        }
        assert_eq!(rule(&known, &one)[0].at, "ip kube-proxy services");
    }
}
