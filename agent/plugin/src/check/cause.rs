//! Why an agent has not counted calls: the probable cause, from what the agent says, in the words
//! of `epguard status` and `epguard why`. Pure.

use super::evidence::{Evidence, NodeEvidence};
use super::plan::Story;
use crate::agents::{NO_AGENT, NO_AGENT_REMEDY};
use epguard_client::answers::status::{
    Problem, gap_problem, hook_problems, socket_lb_problems, unproven_watch, view_problems,
};
use epguard_client::answers::why::WhyVerdict;
use epguard_client::shared::output::count;
use epguard_client::shared::status::{Cause, Gap, ModeSource, Status};
use epguard_common::{Mode, Outcome, Reason};

/// The probable cause of calls that were not counted, and the remedy; none if the agent denies the
/// endpoint and shows nothing wrong.
pub(super) fn unseen(evidence: &Evidence<'_>) -> Option<Problem> {
    let node = evidence.node;
    let condition = match &node.condition {
        Some(Ok(condition)) => condition,
        Some(Err(why)) => {
            return Some(Problem::new(
                format!("its agent does not answer: {why}"),
                "see the pod's Events and its log: `kubectl -n epguard describe pods`",
            ));
        }
        None => {
            return Some(Problem::new(
                format!("{NO_AGENT}, so packets pass"),
                NO_AGENT_REMEDY,
            ));
        }
    };
    let status = &condition.status;
    let reason = match evidence.cell.story {
        Story::Reused => Reason::Reused,
        _ => Reason::DeadBackend,
    };
    if status.mode.is_some() && node.mode(reason) == Some(Mode::Off) {
        let what = format!("the mode is off for {reason} (by {})", status.mode_source);
        let flag = if status.mode != Some(Mode::Off) {
            format!(" --reason {reason}")
        } else if status.mode_source == ModeSource::Canary {
            " --canary".to_owned()
        } else {
            String::new()
        };
        return Some(Problem::new(
            what,
            format!("`kubectl epguard mode observe{flag}` switches it"),
        ));
    }
    let view = view_problem(status);
    let no_denial = no_denial(evidence);
    let stalled = stalled(node, no_denial.is_some());
    let denials = stalled.or(no_denial).or_else(|| rival(evidence, status));
    let mut shown = status.clone();
    // It counts packets since the agent's start; those of the check's calls are counted below.
    let gaps = &mut shown.translators.gaps;
    gaps.retain(|gap| gap.cause != Cause::Unreadable);
    let hooks = [hook_problems(&shown), socket_lb_problems(&shown)].concat();
    let passed = passed(node);
    // Hooks first: a neighbour solicitation to a suspect has no record, and is no call.
    let mut causes = view.into_iter().chain(denials).chain(hooks).chain(passed);
    causes.next()
}

/// What kept the agent's view from being fresh before the calls, if it did not deny the endpoint
/// then, or its denials had ended. The end of the check may have started a watch anew.
fn stalled(node: &NodeEvidence, lacks_denial: bool) -> Option<Problem> {
    let before = node.before.as_ref()?;
    if !lacks_denial && !before.lease_has_ended() {
        return None;
    }
    let problem = view_problem(before).or_else(|| unproven_watch(before));
    let Problem { what, remedy } = problem?;
    Some(Problem::new(format!("before the calls: {what}"), remedy))
}

/// The worst of what keeps a view from being fresh. A policy that is not in force does not: it
/// changes the mode, which is known.
fn view_problem(status: &Status) -> Option<Problem> {
    let mut shown = status.clone();
    shown.mode_policy = None;
    view_problems(&shown).into_iter().next()
}

/// Another Service that keeps packets from showing the cell's own.
fn rival(evidence: &Evidence<'_>, status: &Status) -> Option<Problem> {
    let mut rivals = status.rivals.iter();
    let (service, rival) =
        rivals.find(|(service, _)| Some(service.as_str()) == evidence.service)?;
    Some(Problem::new(
        format!(
            "packets to a VIP of two Services pass: {rival} claims a VIP of {service}, or did in the last 10 minutes"
        ),
        "run the check again: its Services get other cluster IPs",
    ))
}

/// What is wrong with the records of packets that passed a hook uncounted.
fn passed(node: &NodeEvidence) -> Option<Problem> {
    let of = |outcome: Outcome| {
        let packets = node.passed.get(&outcome).copied().unwrap_or_default();
        (packets > 0).then(|| count(packets, "packet"))
    };
    if let Some(detail) = of(Outcome::UnreadableConnection) {
        return Some(gap_problem(&Gap {
            cause: Cause::Unreadable,
            detail,
        }));
    }
    let packets = of(Outcome::NoConnection)?;
    Some(Problem::new(
        format!("{packets} to suspects passed without a record of the connection"),
        "a rule without connection tracking, IPVS without conntrack, a flowtable, or a translator that epguard does not read: \
         see docs/limits.md",
    ))
}

/// Why the agent does not deny the cell's endpoint, if it does not.
fn no_denial(evidence: &Evidence<'_>) -> Option<Problem> {
    let verdicts = evidence.node.verdicts.get(&evidence.endpoint)?;
    let protocol = evidence.cell.protocol.as_str();
    let Some(verdict) = verdict_about(verdicts, evidence.service, protocol) else {
        return Some(Problem::new(
            format!(
                "the agent knows no endpoint {} of {}",
                evidence.endpoint,
                evidence.service.unwrap_or_default()
            ),
            "see with `kubectl epguard status --node` whether its watches are up",
        ));
    };
    let because = &verdict.because;
    let what = match &*verdict.verdict {
        "deny" => return None,
        "stopped" => format!("the breaker stops the denial: {because}"),
        _ => format!("the agent does not deny the endpoint: {because}"),
    };
    Some(Problem::new(
        what,
        format!("what would change it: {}", verdict.change),
    ))
}

/// The verdict about calls to a Service over a protocol.
pub(super) fn verdict_about<'a>(
    verdicts: &'a [WhyVerdict],
    service: Option<&str>,
    protocol: &str,
) -> Option<&'a WhyVerdict> {
    verdicts.iter().find(|verdict| {
        verdict.service.as_deref() == service && verdict.protocol.as_deref() == Some(protocol)
    })
}
