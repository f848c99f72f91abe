//! What is a finding, and which of them are one line.

use super::*;
use epguard_common::{Mode, RawDenial};

const WEB: ServiceNumber = ServiceNumber { number: 7 };
const DEAD: &str = "145c3e45-83c2-43e7-82af-16a616c6f5e0";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn denial(reason: Reason, uid_state: UidState) -> Denial {
    let dead_uid = Uid::parse(DEAD).unwrap();
    let (reason, uid_state, mode) = (reason as u32, uid_state as u32, Mode::Enforce as u32);
    RawDenial {
        dead_uid,
        reason,
        uid_state,
        mode,
        ..RawDenial::default()
    }
    .checked()
    .unwrap()
}

fn of(denial: &Denial, status: &Status) -> AuditFinding {
    finding_of_denial(address("10.244.1.10:8080"), WEB, denial, status)
}

fn tcp(aim: &str, endpoint: &str) -> Flow {
    Flow {
        protocol: Protocol::Tcp,
        client: address("10.244.1.5:40000"),
        aim: address(aim),
        endpoint: address(endpoint),
        state: Some("SYN_SENT"),
    }
}

/// shop/web (10.96.0.1:80) has a stale endpoint at 10.244.1.10:8080; no pod has 10.244.1.9.
fn known(reason: Reason) -> KnownDenials {
    let status = Status {
        pods: [(DEAD.to_owned(), "shop/a".to_owned())].into(),
        services: [("7".to_owned(), "shop/web".to_owned())].into(),
        ..Status::default()
    };
    let found = of(&denial(reason, UidState::Dead), &status);
    let orphan = finding_of_ended_pod(address("10.244.1.9:0"), Reason::Terminated, "shop/a".into());
    KnownDenials {
        services: [((address("10.96.0.1:80"), Protocol::Tcp), WEB)].into(),
        denied: [((found.endpoint, Protocol::Tcp), vec![(WEB, found)])].into(),
        orphan_ips: [(orphan.endpoint.ip(), orphan)].into(),
    }
}

/// A stale flow.
fn flow() -> AuditFinding {
    let flow = tcp("10.96.0.1:80", "10.244.1.10:8080");
    known(Reason::DeadBackend).finding_of(&flow).unwrap()
}

#[test]
fn only_endpoints_that_are_proven_dead_are_stale() {
    for (reason, uid_state, expected) in [
        (Reason::DeadBackend, UidState::Dead, FlowState::Stale),
        (Reason::Reused, UidState::Dead, FlowState::Stale),
        (Reason::Reused, UidState::Retired, FlowState::AllowedToEnd),
        (
            Reason::RetiredBackend,
            UidState::Retired,
            FlowState::AllowedToEnd,
        ),
    ] {
        let found = of(&denial(reason, uid_state), &Status::default());
        assert_eq!(found.state, expected, "{reason}");
        let unnamed = (found.service.as_deref(), &*found.meant, found.hit);
        assert_eq!(unnamed, (Some("Service 7"), DEAD, None));
    }
}

#[test]
fn a_flow_is_judged_by_its_service_or_by_the_ip_itself() {
    let stale = |known: KnownDenials, aim: &str, endpoint: &str| {
        let found = known.finding_of(&tcp(aim, endpoint));
        found.map(|found| (found.reason, found.service))
    };
    let (x, direct) = ("10.244.1.10:8080", "10.244.1.9:53");
    let web = || Some("shop/web:80".to_owned());
    for reason in [Reason::DeadBackend, Reason::Reused] {
        let of_service = stale(known(reason), "10.96.0.1:80", x);
        assert_eq!(of_service, Some((reason.as_str().into(), web())));
        assert_eq!(
            stale(known(reason), x, x),
            None,
            "the IP has, or may have, an owner"
        );
        let orphan = stale(known(reason), direct, direct);
        assert_eq!(orphan, Some(("terminated".into(), None)));
    }
    // A flow whose Service has no denial may rightly lead to the new owner.
    let unknown = |reason| stale(known(reason), "10.96.0.9:80", x);
    assert_eq!(
        unknown(Reason::DeadBackend),
        Some(("dead-backend".into(), None))
    );
    assert_eq!(unknown(Reason::Reused), None);
}

#[test]
fn flows_of_many_clients_to_one_endpoint_in_one_state_are_one_line() {
    let client = |port: u16| AuditFinding {
        at: format!("10.244.1.5:{port} -> 10.96.0.1:80"),
        ..flow()
    };
    let established = AuditFinding {
        connection: Some("ESTABLISHED".into()),
        ..flow()
    };
    let merged = merge_findings((40_000..40_193).map(client).chain([established]));
    let counts: Vec<_> = merged
        .iter()
        .map(|one| (one.connection.as_deref(), one.count))
        .collect();
    assert_eq!(counts, [(Some("ESTABLISHED"), 1), (Some("SYN_SENT"), 193)]);
    assert_eq!(merged[1].at, "10.244.1.5:40000 -> 10.96.0.1:80");
}
