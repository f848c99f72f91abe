//! Which flows still lead to a pod that has ended. Pure. Nothing is stale unless the agent has the proof.

use super::conntrack::Flow;
use super::finding::Finding;
use super::known::Known;

/// Judges a flow. One that was sent elsewhere is judged by its Service, any other by the IP itself.
pub fn flow(known: &Known, flow: &Flow) -> Option<Finding> {
    let (service, proof) = if flow.aim == flow.endpoint {
        (None, known.terminated.get(&flow.endpoint.ip())?)
    } else {
        let number = known.services.get(&(flow.aim, flow.protocol)).copied();
        let denied = known.denied(flow.endpoint, flow.protocol, number)?;
        (number.map(|_| denied.service.clone()), &denied.proof)
    };
    Some(Finding {
        state: proof.state,
        port: service.is_some().then(|| flow.aim.port()),
        service,
        endpoint: flow.endpoint,
        protocol: flow.protocol.as_str().into(),
        meant: proof.meant.clone(),
        hit: proof.hit.clone(),
        reason: proof.reason,
        since: None,
        packets: flow.packets,
        connection: flow.state.map(Into::into),
        count: 1,
        at: format!("{} -> {}", flow.client, flow.aim),
        dead: proof.dead,
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::known::{Denied, Proof};
    use super::*;
    use epguard_common::{Reason, ServiceNumber, Uid};
    use epguard_core::facts::Protocol;
    use std::net::SocketAddr;

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
            (found.port, found.connection.as_deref()),
            (Some(80), Some("ESTABLISHED"))
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
    }

    #[test]
    fn flows_of_unknown_services_may_lead_to_the_new_owner_of_an_ip_but_not_to_an_ip_without_owner() {
        for (reason, found) in [(Reason::Reused, None), (Reason::DeadBackend, Some(None))] {
            let other = tcp("192.168.0.1:30080", "10.244.1.10:8080");
            let finding = flow(&known(reason), &other);
            assert_eq!(finding.map(|finding| finding.service), found, "{reason:?}");
        }
    }

    #[test]
    fn a_direct_flow_is_stale_if_the_ip_has_no_owner() {
        let found = flow(&known(Reason::Reused), &tcp("10.244.1.9:53", "10.244.1.9:53")).unwrap();
        assert_eq!((found.reason, found.service), (Reason::Terminated, None));
    }
}
