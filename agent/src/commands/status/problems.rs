//! All problems of an agent, the worst first, each with its remedy. Pure.

use super::crowded::crowded;
use super::problem::{Problem, largest, seconds};
use super::socket_lb::unjudged;
use super::translators::unrecorded;
use super::unproven::unproven;
use crate::shared::output::count;
use crate::shared::status::{Attachment, Status};

/// A map that is fuller than this, in percent, is a problem before it is full.
const NEARLY_FULL: usize = 80;

/// All problems of an agent, the worst first.
#[must_use]
pub fn problems(status: &Status) -> Vec<Problem> {
    let mut found = Vec::new();
    if !status.synced {
        found.push(Problem::new(
            "not every watch has shown a list yet, so there are no new denials",
            "wait; the lines of watches that are down below show the cause",
        ));
    }
    for what in down(status) {
        found.push(Problem::new(
            what,
            "check that this node reaches the API server, and what its account may do (kubectl auth can-i --list)",
        ));
    }
    if let Some(what) = &status.config_map {
        found.push(Problem::new(
            what,
            "check the keys of the ConfigMap, and that the agent may list and watch it (Role epguard)",
        ));
    }
    if status.denies() && status.lease_ms <= 0 {
        let age = status.view_age_ms.map_or("unknown".to_owned(), seconds);
        found.push(Problem::new(
            format!("the lease has ended (age of the view: {age}), so denied packets pass"),
            "the agent renews it with a fresh view: see the watches' ages, and the log for `lease lost`",
        ));
    }
    for interface in &status.interfaces {
        found.extend(unhooked(interface).or_else(|| bypassed(interface)));
    }
    found.extend(unrecorded(&status.translators));
    if status.refused > 0 {
        found.push(Problem::new(
            format!(
                "{} did not fit into a map, those packets pass{}",
                count(status.refused, "denial"),
                largest(&status.refused_by_namespace)
            ),
            "a namespace may fill half of a map: see which map is full below; exclude ranges that need no protection \
             (--protect-cidr, --exclude-cidr)",
        ));
    }
    for (name, fill) in &status.figures.maps {
        if fill.entries * 100 > fill.capacity * NEARLY_FULL {
            found.push(Problem::new(
                format!("map {name} is nearly full: {} of {}", fill.entries, fill.capacity),
                "exclude ranges that need no protection (--protect-cidr, --exclude-cidr)",
            ));
        }
    }
    for reason in &status.demoted {
        let count = status.wrong_denies.get(reason).copied().unwrap_or_default();
        found.push(Problem::new(
            format!("{reason} is only observed, because a denial was wrong ({count} since the start)"),
            "search the log for `wrong deny` and report it; `epguard mode --reason REASON enforce` ends this",
        ));
    }
    for held in &status.breaker {
        found.push(Problem::new(
            format!(
                "{} of {} waited {} for confirmation ({}; {} ready recently)",
                count(held.held, "denial"),
                held.service,
                seconds(held.since_ms),
                held.why,
                count(held.ready_recently, "endpoint")
            ),
            "a second list decides within seconds; if none arrives, check the Service, then use `epguard breaker --release`",
        ));
    }
    for conflict in &status.conflicts {
        found.push(Problem::new(
            format!(
                "{} is claimed by live pods {}, so its traffic passes",
                conflict.ip,
                conflict.pods.join(" and ")
            ),
            "one of them cannot be reached: check the CNI's IPAM on their nodes",
        ));
    }
    let skipped: u64 = status.watches.values().map(|watch| watch.skipped).sum();
    if skipped > 0 {
        found.push(Problem::new(
            format!("{skipped} objects, or annotations of some, could not be read and are ignored"),
            "the log names each (`skipped`)",
        ));
    }
    found.extend(crowded(status));
    found.extend(unproven(status));
    found.extend(unjudged(&status.socket_lb));
    found
}

/// The watches that are down. If all are, one line has the cause of the first.
fn down(status: &Status) -> Vec<String> {
    let down = status.watches.iter().filter(|(_, watch)| !watch.up);
    let down = down.map(|(name, watch)| {
        let why = watch.error.as_deref();
        (name.as_str(), why.unwrap_or("it has not connected yet"))
    });
    let down: Vec<(&str, &str)> = down.collect();
    match &down[..] {
        [(_, why), _, ..] if down.len() == status.watches.len() => vec![format!("no watch is up: {why}")],
        down => down.iter().map(|(name, why)| format!("watch {name} is down: {why}")).collect(),
    }
}

fn unhooked(interface: &Attachment) -> Option<Problem> {
    let why = interface.error.as_deref().unwrap_or("not attached yet");
    (!interface.attached && !interface.waiting).then(|| {
        Problem::new(
            format!("{} ({}) has no hooks: {why}", interface.name, interface.role),
            "nothing is denied there; it is tried again every second",
        )
    })
}

fn bypassed(interface: &Attachment) -> Option<Problem> {
    let first = interface.before.first()?;
    Some(Problem::new(
        format!("{first} runs before epguard on {}", interface.name),
        "packets that it accepts are not judged: start it before epguard, which then attaches first",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::status::{Conflict, Fill, PendingDenials, Watch};
    use epguard_common::Reason;
    use epguard_core::facts::Watched;
    use epguard_core::state::{IpState, Why};

    fn well() -> Status {
        let watch = Watch { up: true, ..Watch::default() };
        Status {
            synced: true,
            lease_ms: 9000,
            interfaces: vec![Attachment { waiting: true, ..Attachment::default() }],
            watches: [(Watched::Pods, watch)].into(),
            ..Status::default()
        }
    }

    fn whats(status: &Status) -> Vec<String> {
        problems(status).into_iter().map(|problem| problem.what).collect()
    }

    #[test]
    fn a_healthy_agent_has_no_problems() {
        assert_eq!(problems(&well()), []);
    }

    #[test]
    fn a_lease_that_ended_matters_only_while_something_is_denied() {
        let mut status = well();
        status.lease_ms = -1;
        assert_eq!(problems(&status), []);
        status.figures.ips.insert(IpState::Denied, 1);
        status.view_age_ms = Some(31_000);
        assert_eq!(whats(&status), ["the lease has ended (age of the view: 31 s), so denied packets pass"]);
    }

    #[test]
    fn all_problems_are_listed_the_worst_first() {
        let mut status = well();
        status.synced = false;
        status.config_map = Some("ConfigMap epguard/epguard was not read yet".into());
        let watch = status.watches.get_mut(&Watched::Pods).unwrap();
        (watch.up, watch.error, watch.skipped) = (false, Some("403 Forbidden".into()), 2);
        let bare = |name: &str| Attachment { name: name.into(), role: "pod".into(), ..Attachment::default() };
        let behind = Attachment { attached: true, before: vec!["cil_from_netdev".into()], ..bare("eth0") };
        status.interfaces = vec![bare("veth1"), behind];
        status.refused = 3;
        status.refused_by_namespace = [("flood".into(), 2), ("shop".into(), 1)].into();
        let fill = Fill { entries: 81, capacity: 100 };
        status.figures.maps.insert("DENIED".into(), fill);
        status.demoted = vec![Reason::Reused];
        status.wrong_denies = [(Reason::Reused, 1)].into();
        status.breaker = vec![PendingDenials {
            service: "shop/web".into(),
            held: 4,
            ready_recently: 6,
            since_ms: 2500,
            why: Why::Half,
        }];
        status.conflicts = vec![Conflict { ip: "10.0.0.7".into(), pods: vec!["a/b".into(), "c/d".into()] }];
        assert_eq!(
            whats(&status),
            [
                "not every watch has shown a list yet, so there are no new denials",
                "watch pods is down: 403 Forbidden",
                "ConfigMap epguard/epguard was not read yet",
                "veth1 (pod) has no hooks: not attached yet",
                "cil_from_netdev runs before epguard on eth0",
                "3 denials did not fit into a map, those packets pass (namespace flood: 2, shop: 1)",
                "map DENIED is nearly full: 81 of 100",
                "reused is only observed, because a denial was wrong (1 since the start)",
                "4 denials of shop/web waited 2 s for confirmation (more-than-half; 6 endpoints ready recently)",
                "10.0.0.7 is claimed by live pods a/b and c/d, so its traffic passes",
                "2 objects, or annotations of some, could not be read and are ignored",
            ]
        );
    }
}
