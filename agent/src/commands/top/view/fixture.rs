//! A node of two samples, one second apart, for tests.

use super::super::model::Model;
use super::super::sample::{Agent, Sample};
use crate::kernel::maps::Counters;
use crate::shared::drops::{Dropped, Kind};
use crate::shared::status::{ModeSource, Status, Watch};
use epguard_common::{Count, Mode, Outcome, Reason};
use epguard_core::facts::Watched;
use epguard_core::state::IpState;
use std::time::Duration;

/// The model after the second sample.
pub(in super::super) fn model() -> Model {
    let sample = |seconds, packets| Sample {
        at: Duration::from_secs(seconds),
        agent: Ok(agent(packets)),
        counters: Ok(counters(packets)),
        renewed: false,
    };
    let mut model = Model::new(sample(1, 0)).unwrap();
    model.refresh(sample(2, 20));
    model
}

/// The agent's answers after so many packets.
pub(in super::super) fn agent(packets: u64) -> Agent {
    let watch = Watch {
        up: true,
        ..Watch::default()
    };
    let status = Status {
        node: "worker-1".into(),
        mode: Some(Mode::Enforce),
        mode_source: ModeSource::Flags,
        synced: true,
        lease_ms: 12_000,
        view_age_ms: Some(3000),
        watches: [(Watched::Pods, watch)].into(),
        ..Status::default()
    };
    let web = flow(
        "shop/web",
        "10.244.1.10:8080",
        (Reason::Reused, Outcome::Dropped),
        ["shop/web-1", "team-b/b"],
    );
    let api = flow(
        "shop/api",
        "10.244.1.11:443",
        (Reason::DeadBackend, Outcome::Rejected),
        ["shop/api-7d9f8c6b5-x2x7k", "nobody"],
    );
    let idle = flow(
        "shop/web",
        "10.244.1.12:8080",
        (Reason::DeadBackend, Outcome::Dropped),
        ["shop/web-2", "nobody"],
    );
    let direct = flow(
        "unknown",
        "[fd00::1]:80",
        (Reason::Terminated, Outcome::Observed),
        ["old/job-1", "nobody"],
    );
    let drops = vec![
        web(packets * 6 / 10, 100),
        idle(11, 900),
        api(498 + packets / 10, 4000),
        direct(1, 130_000),
    ];
    let mut status = status;
    status.figures.ips.insert(IpState::Denied, 3);
    Agent::of_node(status, drops)
}

/// The kernel's counters after so many packets.
pub(in super::super) fn counters(packets: u64) -> Counters {
    let count = |packets| Count {
        packets,
        ..Count::default()
    };
    [
        ((Reason::Reused, Outcome::Dropped), count(packets)),
        ((Reason::DeadBackend, Outcome::Rejected), count(packets / 10)),
        ((Reason::Terminated, Outcome::Observed), count(packets / 5)),
        ((Reason::Nothing, Outcome::NotDenied), count(packets * 150)),
        ((Reason::Reused, Outcome::Established), count(packets / 4)),
        ((Reason::Reused, Outcome::EventSuppressed), count(packets)),
    ]
    .into()
}

fn flow(
    service: &str,
    endpoint: &str,
    (reason, outcome): (Reason, Outcome),
    pods: [&str; 2],
) -> impl Fn(u64, u64) -> Dropped {
    let [meant, hit] = pods.map(str::to_owned);
    let kind = Kind {
        service: service.into(),
        endpoint: endpoint.parse().unwrap(),
        protocol: "TCP".into(),
        reason,
        outcome,
        meant,
        hit,
    };
    move |packets, last_ms_ago| Dropped {
        kind: kind.clone(),
        packets,
        bytes: 60 * packets,
        openings: packets,
        clients: vec![[10, 244, 2, 5].into()],
        first_ms_ago: 400_000,
        last_ms_ago,
    }
}
