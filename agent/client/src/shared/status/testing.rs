//! A status for tests.

use super::{
    Attachment, Conflict, Fill, Partial, PossibleHolder, Status, StoppedDenials, UnprovenDeaths,
    Watch,
};
use epguard_common::Reason;
use epguard_core::facts::Watched;
use epguard_core::freshness::Proof;
use epguard_core::state::StopReason;

/// An agent with every kind of problem that is not beside a load balancer.
pub fn ailing() -> Status {
    let bare = |name: &str| Attachment {
        name: name.into(),
        role: "pod".into(),
        ..Attachment::default()
    };
    let behind = Attachment {
        ifindex: 4,
        attached: true,
        kernel_path: "tcx".into(),
        position: 2,
        before: vec!["cil_from_netdev".into()],
        xdp: Some("driver".into()),
        ..bare("eth0")
    };
    let watch = Watch {
        rv: 7,
        error: Some("403 Forbidden".into()),
        age_ms: Some(7),
        proven_by: Some(Proof::FreshnessCheck),
        skipped: 2,
        restarts: 2,
        ..Watch::default()
    };
    let deaths = |manager: Option<&str>| UnprovenDeaths {
        manager: manager.map(str::to_owned),
        nodes: (1..=4).map(|number| format!("n{number}")).collect(),
        pods: 7,
    };
    let mut status = Status {
        mode_policy: Some("ConfigMap epguard/epguard was not read yet".into()),
        watches: [(Watched::Pods, watch)].into(),
        interfaces: vec![bare("veth1"), behind],
        refused: 3,
        refused_by_namespace: [("flood".into(), 2), ("shop".into(), 1)].into(),
        demoted: vec![Reason::Reused],
        wrong_denies: [(Reason::Reused, 1)].into(),
        breaker: vec![StoppedDenials {
            service: "shop/web".into(),
            stopped: 4,
            ready_recently: 6,
            since_ms: 2500,
            resource_version: 41,
            why: StopReason::MoreThanHalf,
        }],
        conflicts: vec![Conflict {
            ip: "10.0.0.7".into(),
            pods: vec!["a/b".into(), "c/d".into()],
        }],
        left_out: [("flood".into(), 2), ("shop".into(), 1)].into(),
        partial: Partial {
            count: 4,
            first: vec!["Pod shop/a".into(), "EndpointSlice shop/web-1".into()],
        },
        rivals: (1..=4)
            .map(|number| (format!("shop/web-{number}"), "flood/all".to_owned()))
            .collect(),
        unproven: vec![deaths(Some("microshift")), deaths(None)],
        possible_holders: vec![PossibleHolder {
            pod: "shop/stuck".into(),
            node: "n1".into(),
            since_ms: 90_000,
            blocks_terminated: true,
            blocks_services: vec!["shop/web".into()],
        }],
        ..Status::default()
    };
    status.figures.maps.insert(
        "DENIED".into(),
        Fill {
            entries: 81,
            capacity: 100,
        },
    );
    status
}
