//! Compares what the callers sent with what their nodes' agents counted: a row for each cell, and
//! for a row that fails the probable cause. Pure.

use super::cause::unseen;
use super::evidence::Evidence;
use super::plan::{Cell, Story};
use epguard_client::answers::status::Problem;
use epguard_client::shared::calls::CallProtocol;
use epguard_client::shared::drops::{Dropped, NOBODY};
use epguard_client::shared::output::count;
use epguard_common::{Mode, Outcome, Reason};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A cell with what was sent and seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    /// Which calls.
    #[serde(flatten)]
    pub cell: Cell,
    /// How many calls were made.
    pub sent: u64,
    /// How many of them the node's agent counted as denied, or as would be denied.
    pub seen: u64,
    /// The same by what became of them: observed, dropped, rejected.
    pub outcomes: BTreeMap<String, u64>,
    /// How many were answered.
    pub answered: u64,
    /// Whether the row is as it has to be.
    pub ok: bool,
    /// What is wrong, with its probable cause, and the remedy; none if nothing is.
    pub problem: Option<Problem>,
    /// Why calls that were not seen are no problem.
    pub note: Option<&'static str>,
}

impl Row {
    /// A row whose calls were not made, or prove nothing.
    pub fn failed(cell: &Cell, problem: Problem) -> Self {
        Self {
            cell: cell.clone(),
            sent: 0,
            seen: 0,
            outcomes: BTreeMap::new(),
            answered: 0,
            ok: false,
            problem: Some(problem),
            note: None,
        }
    }
}

/// The row of a cell.
pub(super) fn compare(evidence: &Evidence<'_>) -> Row {
    let cell = evidence.cell;
    let mut row = Row {
        cell: cell.clone(),
        sent: evidence.calls.sent,
        seen: 0,
        outcomes: BTreeMap::new(),
        answered: evidence.calls.answered.values().sum(),
        ok: false,
        problem: None,
        note: None,
    };
    for dropped in evidence.counted {
        let calls = calls_of(dropped, cell.protocol);
        row.seen += calls;
        *row.outcomes
            .entry(dropped.kind.outcome.to_string())
            .or_default() += calls;
    }
    row.problem = if sends_nothing(evidence, &row) {
        row.note = Some(NO_PACKET);
        None
    } else if cell.story.is_stale() {
        stale_fault(evidence, &row)
    } else {
        live_fault(evidence)
    };
    row.ok = row.problem.is_none();
    if row.ok && row.seen > row.sent {
        row.note = Some(COUNTED_TWICE);
    }
    row
}

/// The note of a row by [`sends_nothing`].
const NO_PACKET: &str = "no packet leaves for the unused IP, as behind a bridge: with a second node its pod is called instead";

/// Whether the calls ended at the node's own bridge, where no host answers for the IP: so no packet
/// can reach another pod. The agent denies the endpoint, and shows nothing wrong.
fn sends_nothing(evidence: &Evidence<'_>, row: &Row) -> bool {
    let is_own = evidence.cell.story == Story::Finished && evidence.is_local;
    is_own && row.seen == 0 && row.answered == 0 && unseen(evidence).is_none()
}

/// How many calls these packets are: each TCP call sends one SYN, each UDP call one datagram.
const fn calls_of(dropped: &Dropped, protocol: CallProtocol) -> u64 {
    match protocol {
        CallProtocol::Tcp => dropped.openings,
        CallProtocol::Udp => dropped.packets,
    }
}

/// What was counted since the calls began. A count that fell began anew.
pub(super) fn since(before: &[Dropped], after: &[Dropped]) -> Vec<Dropped> {
    let mut new = Vec::new();
    for now in after {
        let mut now = now.clone();
        let earlier = before
            .iter()
            .find(|earlier| earlier.kind == now.kind && earlier.packets <= now.packets);
        if let Some(earlier) = earlier {
            now.packets -= earlier.packets;
            now.openings = now.openings.saturating_sub(earlier.openings);
        }
        if now.packets > 0 {
            new.push(now);
        }
    }
    new
}

/// What was counted of calls to a Service, or (without one) to the IP itself.
pub(super) fn counted_of(
    all: &[Dropped],
    service: Option<&str>,
    ip: IpAddr,
    protocol: CallProtocol,
) -> Vec<Dropped> {
    let wants = |dropped: &&Dropped| {
        let kind = &dropped.kind;
        match service {
            Some(service) => {
                kind.service == service
                    && kind.endpoint.is_ipv4() == ip.is_ipv4()
                    && kind.protocol == protocol.as_str()
            }
            None => kind.endpoint.ip() == ip && !kind.service.contains('/'),
        }
    };
    all.iter().filter(wants).cloned().collect()
}

/// What is wrong with calls that have to be counted.
fn stale_fault(evidence: &Evidence<'_>, row: &Row) -> Option<Problem> {
    let sent = row.sent;
    let seen = row.seen;
    if seen < sent {
        let failed: u64 = evidence.calls.failed.values().sum();
        let cause = match evidence.calls.failed.keys().next() {
            Some(error) if seen + failed >= sent => Problem::new(
                format!(
                    "{} failed before a packet left: {error}",
                    count(failed, "call")
                ),
                "check routes and policies of the node: `kubectl epguard check --keep` keeps the pods",
            ),
            _ => unseen(evidence).unwrap_or_else(|| {
                Problem::new(
                    "the agent denies the endpoint, and shows no problem: the packets pass no hook of it",
                    "another program may redirect them before (`kubectl epguard status --node` lists the interfaces): \
                     report it with `kubectl epguard sysdump`",
                )
            }),
        };
        return Some(Problem::new(
            format!("{sent} sent, {seen} seen: {}", cause.what),
            cause.remedy,
        ));
    }
    if seen > sent && !may_count_twice(evidence, row) {
        return Some(Problem::new(
            format!("{sent} sent, {seen} seen: calls are counted more than once"),
            "run the check again, as the kernel of a busy node sends an unanswered SYN again; if it stays, report it with \
             `kubectl epguard sysdump`",
        ));
    }
    names_fault(evidence).or_else(|| outcome_fault(evidence, row))
}

/// The note of a row by [`may_count_twice`].
const COUNTED_TWICE: &str = "beside a load balancer at sockets, an observed call counts when it connects, and by its SYN: with \
     reject and redirect, and while a new interface gets its hooks";

/// Whether each call that was counted more than once may have been: see [`COUNTED_TWICE`].
fn may_count_twice(evidence: &Evidence<'_>, row: &Row) -> bool {
    let Some(Ok(condition)) = &evidence.node.condition else {
        return false;
    };
    let is_tcp = evidence.cell.protocol == CallProtocol::Tcp;
    let observed = row.outcomes.get(Outcome::Observed.as_str());
    is_tcp
        && !condition.status.socket_lb.programs.is_empty()
        && observed == Some(&row.seen)
        && row.seen <= 2 * row.sent
}

/// What is wrong with the reason, or with the names of the pods.
fn names_fault(evidence: &Evidence<'_>) -> Option<Problem> {
    let report = "report it with `kubectl epguard sysdump`";
    for Dropped { kind, .. } in evidence.counted {
        let is_reused = kind.reason == Reason::Reused.as_str();
        let is_right = match evidence.cell.story {
            // The IPAM may have handed the IP on by now.
            Story::Finished => is_reused || kind.reason == Reason::DeadBackend.as_str(),
            _ => is_reused,
        };
        if !is_right {
            return Some(Problem::new(
                format!("the calls are seen as {}", kind.reason),
                "`kubectl epguard why` shows what keeps the agent from the right reason",
            ));
        }
        if kind.meant != evidence.meant {
            let what = format!(
                "the pod meant is {}, and the agent names {}",
                evidence.meant, kind.meant
            );
            return Some(Problem::new(what, report));
        }
        let hit = if evidence.cell.story == Story::Reused {
            evidence.stranger
        } else {
            NOBODY
        };
        if kind.hit != hit && (hit != NOBODY || !is_reused) {
            let what = format!("the pod hit is {hit}, and the agent names {}", kind.hit);
            return Some(Problem::new(what, report));
        }
    }
    None
}

/// What is wrong with what became of the calls, by the mode and the action in force.
fn outcome_fault(evidence: &Evidence<'_>, row: &Row) -> Option<Problem> {
    let calls = evidence.calls;
    let of = |outcome: Outcome| {
        row.outcomes
            .get(outcome.as_str())
            .copied()
            .unwrap_or_default()
    };
    let observed = of(Outcome::Observed);
    let dropped = of(Outcome::Dropped);
    let rejected = of(Outcome::Rejected);
    let may_stop = evidence.cell.story == Story::Finished;
    let mode = evidence.node.mode(reason_seen(evidence));
    if may_stop
        && observed < row.seen
        && let Some(mode @ (Mode::Observe | Mode::Off)) = mode
    {
        return Some(Problem::new(
            format!(
                "the mode is {mode}, and {} stopped",
                were(row.seen - observed)
            ),
            "report it with `kubectl epguard sysdump`",
        ));
    }
    if may_stop && observed > 0 && mode == Some(Mode::Enforce) {
        return Some(Problem::new(
            format!("the mode is enforce, and {} only observed", were(observed)),
            "see whether an annotation, or a Namespace not seen yet, allows less: `kubectl epguard why`",
        ));
    }
    if !may_stop && observed < row.seen {
        return Some(Problem::new(
            format!(
                "{} stopped, though the slice names an IP that the pod never had",
                were(row.seen - observed)
            ),
            "report it with `kubectl epguard sysdump`",
        ));
    }
    if may_stop && dropped + rejected > 0 {
        if calls.timed_out != dropped {
            let node = &evidence.cell.node;
            return Some(differ(
                node,
                dropped,
                "dropped",
                calls.timed_out,
                "timed out",
            ));
        }
        if calls.refused != rejected {
            let node = &evidence.cell.node;
            return Some(differ(node, rejected, "rejected", calls.refused, "refused"));
        }
    }
    if !may_stop {
        return lost(evidence);
    }
    None
}

/// The reason as which the calls were counted: the IPAM may have handed the IP on by then.
fn reason_seen(evidence: &Evidence<'_>) -> Reason {
    let mut counted = evidence.counted.iter();
    if counted.any(|dropped| dropped.kind.reason == Reason::Reused.as_str()) {
        Reason::Reused
    } else {
        Reason::DeadBackend
    }
}

/// `3 calls were`.
fn were(calls: u64) -> String {
    let verb = if calls == 1 { "was" } else { "were" };
    format!("{} {verb}", count(calls, "call"))
}

/// The agent's count and the caller's are not the same.
fn differ(node: &str, counted: u64, as_what: &str, ended: u64, how: &str) -> Problem {
    Problem::new(
        format!("the agent counts {counted} calls as {as_what}, and {ended} {how}"),
        format!(
            "another program answers or drops these calls, too: compare with `kubectl epguard mode off --node {node}`"
        ),
    )
}

/// What is wrong with calls to a live pod.
fn live_fault(evidence: &Evidence<'_>) -> Option<Problem> {
    if let Some(dropped) = evidence.counted.first() {
        let packets: u64 = evidence.counted.iter().map(|dropped| dropped.packets).sum();
        return Some(Problem::new(
            format!(
                "{} to a live pod {} counted as {} ({})",
                count(packets, "packet"),
                if packets == 1 { "is" } else { "are" },
                dropped.kind.outcome,
                dropped.kind.reason
            ),
            format!(
                "a denial is wrong: `kubectl epguard mode observe --node {}`, then report it with `kubectl epguard sysdump`",
                evidence.cell.node
            ),
        ));
    }
    lost(evidence)
}

/// What is wrong if not every call was answered by the live pod.
fn lost(evidence: &Evidence<'_>) -> Option<Problem> {
    let calls = evidence.calls;
    let name = evidence.stranger.rsplit('/').next().unwrap_or_default();
    let right = calls.answered_by(name);
    if right == calls.sent {
        return None;
    }
    let other = calls.answered.keys().find(|answered| *answered != name);
    let mut ends = vec![format!("{right} of {} answered", calls.sent)];
    if let Some(other) = other {
        ends.push(format!("others by {other}"));
    }
    for (ended, how) in [(calls.refused, "refused"), (calls.timed_out, "timed out")] {
        if ended > 0 {
            ends.push(format!("{ended} {how}"));
        }
    }
    for (error, failed) in &calls.failed {
        ends.push(format!("{failed} failed: {error}"));
    }
    Some(Problem::new(
        format!(
            "calls to a live pod are lost, and the agent stopped none: {}",
            ends.join(", ")
        ),
        format!(
            "not epguard, unless `kubectl epguard mode off --node {}` ends it: check routes, kube-proxy and network policies",
            evidence.cell.node
        ),
    ))
}

#[cfg(test)]
mod tests;
