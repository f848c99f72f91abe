//! Calls in one mode after the other: the clients' results, and epguard's counters.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use epguard_common::{Effect, Mode, Outcome, Reason};

use super::agent::Agent;
use super::answers::{as_expected, summary};
use super::beside;
use super::cluster::Cluster;
use super::counters::Counters;
use super::format::{Action, Call, Family, ForbiddenIn, Scenario, Sees, Wire};
use super::refusals;
use super::stage::Stage;
use super::traffic::{Clients, describe};
use super::variant::Variant;
use crate::neighbour::Neighbour;
use crate::wait::{self, PATIENCE};

/// No packet of a finished call takes longer to its next hop, unless the machine is busy.
const QUIET: Duration = Duration::from_millis(2);

/// A series of calls, in one mode after the other.
#[derive(Debug)]
pub struct Series<'a> {
    mode: Mode,
    /// Whether the kernel judges packets by the calls of their sockets.
    judges_by_socket: bool,
    enforce_retired: bool,
    action: Action,
    agent: &'a Agent,
    cluster: &'a Cluster,
    neighbour: Option<&'a Neighbour>,
    variant: Variant,
    /// Reasons of denied flows that are still open and may send again at any time.
    noisy: BTreeSet<Reason>,
}

impl<'a> Series<'a> {
    /// A series of calls on this stage.
    pub fn new(scenario: &Scenario, stage: &'a Stage, variant: Variant) -> Result<Self> {
        let action = variant.action.or(scenario.agent.action).unwrap_or(Action::Drop);
        Ok(Self {
            mode: Mode::Off,
            judges_by_socket: variant.caller.is_at_sockets() && stage.agent.judges_by_socket()?,
            enforce_retired: scenario.agent.enforce_retired,
            action,
            agent: &stage.agent,
            cluster: &stage.cluster,
            neighbour: stage.neighbour.as_ref(),
            variant,
            noisy: BTreeSet::new(),
        })
    }

    /// Sets the mode in which the next calls are judged.
    pub fn enter(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Makes the requests of one call, if the run's caller makes it. The error names the expected and the seen results.
    pub fn make(&mut self, call: &Call, clients: &mut Clients) -> Result<()> {
        if self.variant.caller.is_at_sockets() && !call.socket_lb {
            return Ok(());
        }
        let denied = match &call.denied {
            Some(_) if self.mode == Mode::Off => None,
            Some(text) => Some(Reason::parse(text).with_context(|| format!("there is no reason {text}"))?),
            None => None,
        };
        if let (Some(Reason::Terminated), Some(to)) = (denied, &call.call) {
            self.agent.await_orphan_ip(self.cluster.names.address(to)?)?;
        }
        let declared = call.by.unwrap_or(self.action);
        let by = self.by(call);
        let answer = match by {
            Action::Reject if call.on.as_ref().is_some_and(|flow| clients.is_connection(flow)) => "reset",
            Action::Reject => "refused",
            _ => "nothing",
        };
        let stopped = Sees::Always(answer.into());
        let [refused, unreachable] = ["refused", "nothing"].map(|word| Sees::Always(word.into()));
        let sees = match (self.mode, denied) {
            (Mode::Enforce, Some(reason)) => match &call.enforced {
                Some(sees) if by == declared => sees,
                _ if self.only_observes(call, reason) => &call.sees,
                _ if matches!(call.sees, Sees::Mixed(_)) => &call.sees,
                _ => &stopped,
            },
            // Where a proxy refuses, a load balancer at sockets reports an unreachable host.
            _ if call.sees == refused && self.is_unreachable(call) => &unreachable,
            (Mode::Enforce, None) => call.enforced.as_ref().unwrap_or(&call.sees),
            _ => &call.sees,
        };
        let is_forbidden = match call.forbidden {
            Some(ForbiddenIn::EveryMode) => true,
            Some(ForbiddenIn::Enforce) => self.mode == Mode::Enforce && by == declared,
            None => false,
        };
        if let (true, Some(_), Some(flow)) = (self.variant.caller.is_at_sockets(), denied, &call.on) {
            clients.await_settled(flow);
        }
        let before = self.quiet()?;
        let host = self.caller(call);
        let unsent = denied.filter(|reason| self.refuses(call, *reason));
        let unsent = unsent.map(|_| refusals::sniffer(call, host, self.cluster));
        let unsent = unsent.transpose()?;
        let beside = self.neighbour.map(Neighbour::counts).transpose()?;
        let answers = clients.make(call, sees, self.cluster, self.variant)?;
        self.quiet()?;
        self.counted(call, denied, &before, &answers)
            .and_then(|()| as_expected(sees, &answers))
            .and_then(|()| match (self.neighbour, beside) {
                (Some(neighbour), Some(before)) => beside::check(neighbour, call, is_forbidden, before),
                _ => Ok(()),
            })
            .and_then(|()| unsent.map_or(Ok(()), refusals::check))
            .with_context(|| format!("{} in mode {}", describe(call), self.mode.as_str()))?;
        if let (Some(_), Some(reason)) = (&call.on, denied) {
            self.noisy.insert(reason);
        }
        Ok(())
    }

    /// The counters once they no longer change: the last packets of earlier calls have been counted.
    fn quiet(&self) -> Result<Counters> {
        let deadline = Instant::now() + PATIENCE;
        let mut last = self.agent.counters()?;
        loop {
            thread::sleep(QUIET);
            let now = self.agent.counters()?;
            if now == last || Instant::now() >= deadline {
                return Ok(now);
            }
            last = now;
        }
    }

    fn only_observes(&self, call: &Call, reason: Reason) -> bool {
        call.only_observed
            || match reason {
                Reason::RetiredBackend => !self.enforce_retired,
                Reason::Terminated => self.variant.cni.is_bridge(),
                _ => false,
            }
    }

    fn counted(&self, call: &Call, denied: Option<Reason>, before: &Counters, seen: &[String]) -> Result<()> {
        let least = match call.sees {
            Sees::Always(_) => u64::from(call.times),
            Sees::Mixed(_) => 1,
        };
        wait::until(Duration::from_millis(1), || {
            let now = self.agent.counters()?.since(before);
            if let Some(reason) = self.unwanted(call, denied, &now) {
                let what = if denied.is_none() {
                    "nothing denied".into()
                } else {
                    format!("only {}", words(denied))
                };
                anyhow::bail!("expected {what}, seen {}: counted {now}; {}", reason.as_str(), summary(seen));
            }
            ensure!(
                self.mode == Mode::Enforce
                    || Outcome::stopped().all(|outcome| now.with_outcome(outcome) == 0),
                "expected that every packet passes, seen: counted {now}; {}",
                summary(seen)
            );
            self.more(call, denied, &now)?;
            Ok(match self.missing(call, denied, least, &now) {
                None => Ok(()),
                Some(missing) => {
                    Err(format!("expected {missing} counted, seen: counted {now}; {}", summary(seen)))
                }
            })
        })
    }

    /// The expected action.
    fn by(&self, call: &Call) -> Action {
        let by = call.by.unwrap_or(self.action);
        let is_to_ip = call.call.as_ref().is_some_and(|to| self.cluster.service(to).is_none());
        if self.variant.caller.is_at_sockets() && !is_to_ip {
            refusals::action(call, by, self.judges_by_socket)
        } else {
            by
        }
    }

    fn caller<'b>(&self, call: &'b Call) -> &'b str {
        call.from.as_deref().unwrap_or(self.variant.caller_host())
    }

    /// Whether the call is refused before its socket sends anything.
    fn refuses(&self, call: &Call, reason: Reason) -> bool {
        self.variant.caller.is_at_sockets()
            && self.mode == Mode::Enforce
            && self.by(call) == Action::Reject
            && reason != Reason::Terminated
            && call.on.is_none()
            && !self.only_observes(call, reason)
    }

    fn is_unreachable(&self, call: &Call) -> bool {
        let backends = self.cluster.backends(call.call.as_deref().unwrap_or_default());
        self.variant.caller.is_at_sockets() && backends.is_some_and(|backends| backends.is_empty())
    }

    /// A reason other than `denied` that was counted. Later packets of a redirected flow have no reason: they are no denial.
    fn unwanted(&self, call: &Call, denied: Option<Reason>, counted: &Counters) -> Option<Reason> {
        // At sockets a datagram of an unconnected socket that was only observed looks like one to the IP itself.
        let observed = self.mode == Mode::Observe && call.protocol == Wire::Udp;
        let also = (self.variant.caller.is_at_sockets() && observed).then_some(Reason::Terminated);
        Reason::TO_DENY
            .into_iter()
            .filter(|reason| Some(*reason) != denied && Some(*reason) != also && !self.noisy.contains(reason))
            .find(|reason| counted.denials(*reason) > 0)
    }

    /// An error if packets were counted beyond those that the call sends.
    fn more(&self, call: &Call, denied: Option<Reason>, now: &Counters) -> Result<()> {
        let (Some(packets), Some(reason)) = (call.packets, denied) else {
            return Ok(());
        };
        let (sent, counted) = (u64::from(call.times * packets), now.denials(reason));
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

    fn missing(&self, call: &Call, denied: Option<Reason>, least: u64, now: &Counters) -> Option<String> {
        if let Some(reason) = denied {
            let enforced = self.mode == Mode::Enforce && !self.only_observes(call, reason);
            let outcome = if enforced { self.by(call).outcome() } else { Outcome::Observed };
            // Refused instead of what the story expects: counted beside.
            let declared = call.by.unwrap_or(self.action);
            if self.refuses(call, reason)
                && matches!(declared, Action::Drop | Action::Capture)
                && now.with_outcome(Outcome::RefusedUnseen) < least
            {
                return Some(format!("at least {least} refused-unseen"));
            }
            let sent = u64::from(call.times * call.packets.unwrap_or_default());
            // Once a fragment is stopped, the kernel may give up the rest of its datagram.
            if !enforced && now.denials(reason) < sent {
                return Some(format!("{sent} packets as {}", reason.as_str()));
            }
            let (counted, once) = (now.of(reason, outcome), self.refuses(call, reason));
            if counted < least || (once && counted > least) {
                let bound = if once { "exactly" } else { "at least" };
                return Some(format!("{bound} {least} {}/{}", reason.as_str(), outcome.as_str()));
            }
        }
        if self.mode == Mode::Off {
            return None;
        }
        let uncounted = call.counted.iter().find(|text| {
            let outcome = Outcome::named(text);
            outcome.is_none_or(|outcome| now.with_outcome(outcome) == 0)
        });
        uncounted.map(|text| format!("at least one {text}"))
    }
}

fn words(reason: Option<Reason>) -> &'static str {
    reason.map_or("none", Reason::as_str)
}
