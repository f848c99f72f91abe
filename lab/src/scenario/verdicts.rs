//! Calls in one mode after the other: the clients' results, and epguard's counters.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use epguard_common::{Effect, Mode, OneOf, Outcome, Reason};

use super::beside;
use super::format::{Action, Call, Caller, Family, ForbiddenIn, Scenario, Sees, Wire};
use super::stage::Stage;
use super::traffic::{Clients, as_expected, describe, summary};
use super::variant::Variant;
use crate::counters::Counters;
use crate::neighbour::{Counts, Neighbour};
use crate::traffic::Sniffer;
use crate::wait::{self, PATIENCE};

/// No packet of a finished call takes longer to its next hop, unless the machine is busy.
const QUIET: Duration = Duration::from_millis(2);

/// A series of calls, in one mode after the other.
pub struct Series<'a> {
    /// The mode in which the next calls are judged.
    pub mode: Mode,
    /// Whether the kernel judges packets by the calls of their sockets.
    judges_by_socket: bool,
    scenario: &'a Scenario,
    stage: &'a Stage,
    variant: Variant,
    /// Reasons of denied flows that are still open and may send again at any time.
    noisy: BTreeSet<Reason>,
}

impl<'a> Series<'a> {
    /// A series of calls on this stage.
    pub fn new(scenario: &'a Scenario, stage: &'a Stage, variant: Variant) -> Result<Self> {
        let judges_by_socket = variant.caller.is_at_sockets() && stage.agent.judges_by_socket()?;
        Ok(Self {
            mode: Mode::Off,
            judges_by_socket,
            scenario,
            stage,
            variant,
            noisy: BTreeSet::new(),
        })
    }

    /// Makes the requests of one call, if the run's caller makes it. The error names the expected
    /// and the seen results.
    pub fn make(&mut self, call: &Call, clients: &mut Clients) -> Result<()> {
        let at_sockets = self.variant.caller.is_at_sockets();
        if at_sockets && !call.socket_lb {
            return Ok(());
        }
        let expected = self.expected(call, clients)?;
        if let (Some(Reason::Terminated), Some(to)) = (expected.denied, &call.call) {
            self.stage
                .agent
                .await_orphan_ip(self.stage.cluster.names.address(to)?)?;
        }
        let must_be_recognized = expected.denied.is_some() || !call.counted.is_empty();
        if at_sockets
            && must_be_recognized
            && let Some(flow) = &call.on
        {
            clients.await_settled(flow);
        }
        let before = self.quiet()?;
        let sniffer = expected.refused.then(|| self.sniffer(call)).transpose()?;
        let beside = self
            .stage
            .neighbour
            .as_ref()
            .map(Neighbour::counts)
            .transpose()?;
        let answers = clients.make(call, &expected.sees, &self.stage.cluster, self.variant)?;
        self.quiet()?;
        let seen = Seen {
            answers,
            before,
            beside,
            sniffer,
        };
        self.judge(&expected, seen)
            .with_context(|| format!("{} in mode {}", describe(call), self.mode.as_str()))?;
        if let (Some(_), Some(reason)) = (&call.on, expected.denied) {
            self.noisy.insert(reason);
        }
        Ok(())
    }

    /// An error unless the call was answered, counted and sent as expected.
    fn judge(&self, expected: &Expected<'_>, seen: Seen) -> Result<()> {
        if let Err(unexpected) = as_expected(&expected.sees, &seen.answers) {
            let counted = self.stage.counters()?.since(&seen.before);
            self.no_other_reason(expected, &counted, &seen.answers)?;
            return Err(unexpected.context(format!("counted {counted}")));
        }
        self.await_counted(expected, &seen.before, &seen.answers)?;
        if let (Some(neighbour), Some(before)) = (&self.stage.neighbour, seen.beside) {
            beside::check(neighbour, expected.call, expected.forbidden, before)?;
        }
        if let Some(mut sniffer) = seen.sniffer {
            let packets = sniffer.packets()?;
            ensure!(
                packets == 0,
                "expected that the refused call sends no packet, seen: {packets} to its backend"
            );
        }
        Ok(())
    }

    fn expected<'c>(&self, call: &'c Call, clients: &Clients) -> Result<Expected<'c>> {
        ensure!(
            call.forbidden.is_none() || self.stage.neighbour.is_some(),
            "the call is forbidden, and the story has no `neighbour` whose policy could do that"
        );
        let denied = match &call.denied {
            Some(text) if self.mode != Mode::Off => {
                let known = OneOf(Reason::TO_DENY);
                let reason = Reason::parse(text)
                    .with_context(|| format!("no denial has the reason {text:?}: {known}"))?;
                Some(reason)
            }
            _ => None,
        };
        let action = self
            .variant
            .action
            .or(self.scenario.agent.action)
            .unwrap_or(Action::Drop);
        let declared = call.by.unwrap_or(action);
        let enforcing = self.mode == Mode::Enforce;
        let enforced = denied.filter(|reason| enforcing && !self.only_observes(call, *reason));
        let by = self.action_at_caller(call, declared);
        let needs_entrance = matches!(declared, Action::Reject | Action::Redirect);
        if enforced.is_some() && needs_entrance && self.stage.agent.pid().is_some() {
            self.stage.await_entrances()?;
        }
        let refused =
            self.variant.caller.is_at_sockets() && by == Action::Reject && call.on.is_none();
        let answer = match by {
            Action::Reject
                if call
                    .on
                    .as_ref()
                    .is_some_and(|flow| clients.is_connection(flow)) =>
            {
                "reset"
            }
            Action::Reject => "refused",
            _ => "nothing",
        };
        let sees = match (denied, &call.enforced) {
            (Some(_), Some(sees)) if enforcing && by == declared => sees.clone(),
            (Some(_), _) if enforced.is_some() && matches!(call.sees, Sees::Always(_)) => {
                Sees::Always(answer.into())
            }
            (Some(_), _) if enforcing => call.sees.clone(),
            // Where a proxy refuses, a load balancer at sockets reports an unreachable host.
            _ if call.sees == Sees::Always("refused".into()) && self.is_unreachable(call) => {
                Sees::Always("nothing".into())
            }
            (None, Some(sees)) if enforcing => sees.clone(),
            _ => call.sees.clone(),
        };
        let forbidden = match call.forbidden {
            Some(ForbiddenIn::EveryMode) => true,
            Some(ForbiddenIn::Enforce) => enforcing && by == declared,
            None => false,
        };
        let refused = refused && enforced.is_some_and(|reason| reason != Reason::Terminated);
        let enforced = enforced.is_some();
        Ok(Expected {
            call,
            denied,
            declared,
            by,
            enforced,
            refused,
            sees,
            forbidden,
        })
    }

    /// The action for a denied call, or its substitute at a load balancer at sockets. UDP is
    /// refused where it should be redirected, or wait: its first datagrams may be those of an
    /// earlier call. So is TCP where the kernel does not judge packets by their sockets. A kept
    /// flow has made its call.
    fn action_at_caller(&self, call: &Call, declared: Action) -> Action {
        let is_to_ip = call
            .call
            .as_ref()
            .is_some_and(|to| !self.stage.cluster.services.contains_key(to));
        let is_udp = call.protocol == Wire::Udp;
        let is_refused = match declared {
            _ if !self.variant.caller.is_at_sockets() || is_to_ip || call.on.is_some() => false,
            Action::Drop => !self.judges_by_socket || is_udp,
            Action::Redirect => is_udp,
            Action::Reject => true,
        };
        if is_refused {
            return Action::Reject;
        }
        let host = call.from.as_deref().unwrap_or(self.variant.caller_host());
        match declared {
            Action::Reject | Action::Redirect if !self.shares_entrance(call) => declared,
            // These are refused at their sockets, without a packet.
            Action::Reject if host == "node-a" && self.variant.caller == Caller::SocketLbHostns => {
                declared
            }
            Action::Reject if host == "node-a" => Action::Drop,
            Action::Redirect => Action::Reject,
            other => other,
        }
    }

    /// Whether other programs than epguard's are where a packet of the call's endpoint enters
    /// node-a: there, no process of the node gets an answer in the endpoint's name, and no flow is
    /// redirected.
    fn shares_entrance(&self, call: &Call) -> bool {
        let topology = &self.stage.cluster.topology;
        let backends = self
            .stage
            .cluster
            .backends(call.call.as_deref().unwrap_or_default());
        let leads_out = backends.is_some_and(|backends| {
            !backends.iter().any(|at| {
                topology
                    .node("node-a")
                    .is_ok_and(|node| node.has_in_pod_cidr(at.ip()))
            })
        });
        if !leads_out && self.variant.cni.is_bridge() {
            // Programs at a bridge's ports do not see what enters at the bridge.
            return false;
        }
        let mut shared = self.stage.shared_entrances().into_iter();
        shared.any(|interface| topology.uplinks().contains(&interface) == leads_out)
    }

    /// Counts from now on the packets of a call to the Service's backends.
    fn sniffer(&self, call: &Call) -> Result<Sniffer> {
        let backends = self
            .stage
            .cluster
            .backends(call.call.as_deref().unwrap_or_default());
        let host = call.from.as_deref().unwrap_or(self.variant.caller_host());
        Sniffer::new(
            self.stage.cluster.netns(host)?,
            backends.unwrap_or_default(),
        )
    }

    /// The counters once they no longer change: the last packets of earlier calls have been
    /// counted.
    fn quiet(&self) -> Result<Counters> {
        let deadline = Instant::now() + PATIENCE;
        let mut last = self.stage.counters()?;
        loop {
            thread::sleep(QUIET);
            let now = self.stage.counters()?;
            if now == last || Instant::now() >= deadline {
                return Ok(now);
            }
            last = now;
        }
    }

    fn only_observes(&self, call: &Call, reason: Reason) -> bool {
        call.only_observed
            || match reason {
                Reason::RetiredBackend => !self.scenario.agent.enforce_retired,
                Reason::Terminated => self.variant.cni.is_bridge(),
                _ => false,
            }
    }

    fn is_unreachable(&self, call: &Call) -> bool {
        let backends = self
            .stage
            .cluster
            .backends(call.call.as_deref().unwrap_or_default());
        self.variant.caller.is_at_sockets() && backends.is_some_and(|backends| backends.is_empty())
    }

    fn await_counted(
        &self,
        expected: &Expected<'_>,
        before: &Counters,
        seen: &[String],
    ) -> Result<()> {
        wait::until(Duration::from_millis(1), || {
            let now = self.stage.counters()?.since(before);
            self.no_other_reason(expected, &now, seen)?;
            let seen = format!("counted {now}; {}", summary(seen));
            ensure!(
                self.mode == Mode::Enforce
                    || Outcome::stopped().all(|outcome| now.with_outcome(outcome) == 0),
                "expected that every packet passes, seen: {seen}"
            );
            self.no_more(expected, &now)?;
            let missing = self.missing(expected, &now);
            Ok(missing.map(|missing| format!("expected {missing} counted, seen: {seen}")))
        })
    }

    /// An error if denials of another reason than the expected one were counted.
    fn no_other_reason(
        &self,
        expected: &Expected<'_>,
        now: &Counters,
        seen: &[String],
    ) -> Result<()> {
        let Some(reason) = self.unwanted(expected, now) else {
            return Ok(());
        };
        let what = expected.denied.map_or("nothing denied".into(), |reason| {
            format!("only {}", reason.as_str())
        });
        bail!(
            "expected {what}, seen {}: counted {now}; {}",
            reason.as_str(),
            summary(seen)
        )
    }

    /// A reason other than the expected one that was counted. Later packets of a redirected flow
    /// have no reason: they are no denial.
    fn unwanted(&self, expected: &Expected<'_>, counted: &Counters) -> Option<Reason> {
        // At sockets a datagram of an unconnected socket that was only observed looks like one to
        // the IP itself.
        let observed = self.mode == Mode::Observe && expected.call.protocol == Wire::Udp;
        let also = (self.variant.caller.is_at_sockets() && observed).then_some(Reason::Terminated);
        let mut wanted = self.noisy.clone();
        wanted.extend(expected.denied);
        wanted.extend(also);
        Reason::TO_DENY
            .into_iter()
            .find(|reason| !wanted.contains(reason) && counted.denials(*reason) > 0)
    }

    /// An error if packets were counted beyond those that the call sends.
    fn no_more(&self, Expected { call, denied, .. }: &Expected<'_>, now: &Counters) -> Result<()> {
        let (Some(packets), Some(reason)) = (call.packets, *denied) else {
            return Ok(());
        };
        let sent = u64::from(call.times * packets);
        let counted = now.denials(reason);
        // A neighbour solicitation to the same IP is not tracked.
        let may_pass = (self.variant.family == Family::Ipv6).then_some(Outcome::NoConnection);
        let passed = Outcome::ALL
            .into_iter()
            .filter(|outcome| outcome.effect() == Effect::Passed && Some(*outcome) != may_pass)
            .map(|outcome| now.with_outcome(outcome));
        ensure!(
            counted <= sent && passed.sum::<u64>() == 0,
            "expected that each of {sent} packets is denied, and counted once, seen: counted {now}"
        );
        Ok(())
    }

    fn missing(&self, expected: &Expected<'_>, now: &Counters) -> Option<String> {
        let Expected {
            call,
            denied,
            declared,
            by,
            enforced,
            refused,
            ..
        } = *expected;
        let least = if matches!(call.sees, Sees::Always(_)) {
            u64::from(call.times)
        } else {
            1
        };
        if let Some(reason) = denied {
            // Refused instead of what the story expects: counted beside.
            let unseen = refused && declared == Action::Drop;
            if unseen && now.with_outcome(Outcome::RefusedUnseen) < least {
                return Some(format!("at least {least} refused-unseen"));
            }
            let sent = u64::from(call.times * call.packets.unwrap_or_default());
            // Once a fragment is stopped, the kernel may give up the rest of its datagram.
            if !enforced && now.denials(reason) < sent {
                return Some(format!("{sent} packets as {}", reason.as_str()));
            }
            if enforced && declared == Action::Reject && by == Action::Drop {
                let dropped = now.with_outcome(Outcome::Unanswerable);
                if dropped < least {
                    return Some(format!("at least {least} unanswerable"));
                }
            }
            let outcome = if enforced {
                by.outcome()
            } else {
                Outcome::Observed
            };
            let counted = now.of(reason, outcome);
            if counted < least || (refused && counted > least) {
                let bound = if refused { "exactly" } else { "at least" };
                return Some(format!(
                    "{bound} {least} {}/{}",
                    reason.as_str(),
                    outcome.as_str()
                ));
            }
        }
        if self.mode == Mode::Off {
            return None;
        }
        let uncounted = call.counted.iter().find(|text| {
            Outcome::from_name(text).is_none_or(|outcome| now.with_outcome(outcome) == 0)
        });
        uncounted.map(|text| format!("at least one {text}"))
    }
}

/// What a call has led to.
struct Seen {
    answers: Vec<String>,
    /// The counters before the call.
    before: Counters,
    /// The neighbour's counts before the call.
    beside: Option<Counts>,
    /// Counts the packets of a call that has to be refused at its socket.
    sniffer: Option<Sniffer>,
}

/// What a call leads to in the mode.
#[derive(Debug)]
struct Expected<'c> {
    call: &'c Call,
    denied: Option<Reason>,
    /// The action of the story, and the one that is seen.
    declared: Action,
    by: Action,
    /// Whether the denial is carried out.
    enforced: bool,
    /// Whether the call is refused before its socket sends anything.
    refused: bool,
    sees: Sees,
    /// Whether the neighbour's policy drops it.
    forbidden: bool,
}
