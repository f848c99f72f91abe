//! Messages of the watches: what they change beside the state, and the state of each watch.

use super::slow_steps::SlowSteps;
use super::{Agent, now};
use crate::daemon::mode_policy::{Actions, Modes, NodeModePolicy};
use crate::daemon::report::metrics::Timings;
use crate::daemon::spans;
use crate::daemon::turn::{Observer, PART, Turn};
use crate::shared::status::{ActionInForce, Watch};
use crate::watch::{Message, WatchEvent};
use anyhow::Result;
use epguard_common::{Mode, Reason};
use epguard_core::facts::{Change, ModePolicy, ObjectName, Watched};
use epguard_core::state::{State, report};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Logs and figures of a turn.
struct Log<'a> {
    timings: &'a mut Timings,
    mode_policy: &'a mut NodeModePolicy,
    watches: &'a mut BTreeMap<Watched, Watch>,
    slow_steps: &'a mut SlowSteps,
    began: Instant,
    /// When the current step began.
    step: Instant,
    /// What it is about.
    object: Option<String>,
}

impl Agent {
    /// Takes in messages of the watches, for the next turn.
    pub fn receive(&mut self, messages: Vec<Message>) {
        for message in messages {
            self.waiting.push(message);
        }
    }

    /// How many messages wait to be applied.
    pub const fn waiting(&self) -> usize {
        self.waiting.count()
    }

    /// True if something waits for [`Agent::run_turn`].
    pub fn has_backlog(&self) -> bool {
        self.waiting.count() > 0
            || self.state.has_backlog()
            || self.writer.has_backlog() && self.state.is_synced()
            || self.history.lacks(&self.state)
    }

    /// Applies messages, goes on with what waits, writes the maps once for all of it, and last
    /// writes history.
    pub fn run_turn(&mut self) -> Result<()> {
        let was_synced = self.state.is_synced();
        let began = Instant::now();
        let mut log = Log {
            timings: &mut self.timings,
            mode_policy: &mut self.mode_policy,
            watches: &mut self.watches,
            slow_steps: &mut self.slow_steps,
            began,
            step: began,
            object: None,
        };
        let mut turn = Turn {
            state: &mut self.state,
            lease: &mut self.lease,
            waiting: &mut self.waiting,
            watches: &self.api,
            clock: now,
            part: PART,
        };
        turn.run(&mut log);
        self.write()?;
        if self.state.is_synced() && !was_synced {
            self.timings.synced();
            tracing::info!("synced");
        }
        self.apply_mode_policy()?;
        self.keep_view_fresh()?;
        self.record_history();
        Ok(())
    }

    /// Applies what has changed of the mode policy. Does nothing before the sync: only the first list
    /// shows if the node is a canary.
    fn apply_mode_policy(&mut self) -> Result<()> {
        if !self.state.is_synced() {
            return Ok(());
        }
        let node = self.state.cluster().nodes.get(self.state.node());
        let is_canary = node.is_some_and(|node| node.canary);
        // First of all: it may be lower, and a release writes denials.
        if let Some(modes) = self.mode_policy.take_change(is_canary) {
            self.set_modes(&modes)?;
        }
        if let Some(actions) = self.mode_policy.take_actions(is_canary) {
            self.set_actions(&actions)?;
        }
        if let Some(release) = self.mode_policy.take_release() {
            let released = self.state.release_stopped(&release);
            if released > 0 {
                tracing::warn!(released, %release, "breaker released by the mode policy");
                self.write()?;
            }
        }
        if let Some(watch) = self.watches.get(&Watched::ModePolicy) {
            self.policy_version = Some(watch.rv);
        }
        Ok(())
    }

    fn set_actions(&mut self, actions: &Actions) -> Result<()> {
        let config = &mut self.writer.config;
        config.set_actions(actions.actions, actions.are_of_policy())?;
        let set = config.read_config()?;
        let mut actions = Vec::new();
        for (reason, ActionInForce { action, source }) in self.mode_policy.actions_in_force(&set) {
            actions.push(format!("{reason}={action} (by {source})"));
        }
        tracing::info!(actions = actions.join(", "), "action set");
        Ok(())
    }

    fn set_modes(&mut self, modes: &Modes) -> Result<()> {
        let config = &mut self.writer.config;
        config.configure(modes.mode, modes.reasons, modes.source.is_mode_policy())?;
        let reasons: Vec<String> = config
            .reasons()
            .iter()
            .map(|(reason, mode)| format!("{reason}={mode}"))
            .collect();
        tracing::info!(
            mode = modes.mode.as_str(),
            reasons = reasons.join(","),
            source = modes.source.as_str(),
            "mode set"
        );
        self.insist_on_hooks()
    }

    /// Errors: the mode in force is `enforce`, and nothing could be enforced.
    pub(super) fn insist_on_hooks(&self) -> Result<()> {
        let seen = &self.node.seen;
        if !seen.settled || self.mode() != Mode::Enforce {
            return Ok(());
        }
        seen.require_hook()?;
        // `terminated` needs no record.
        if self.writer.config.reasons().get(&Reason::Terminated) != Some(&Mode::Enforce) {
            seen.require_record()?;
        }
        Ok(())
    }

    /// True if the agent has denials, so that it needs the lease.
    pub(super) fn denies(&self) -> bool {
        !self.state.tables().denied.is_empty()
            || self.writer.has_redirected_flows()
            || report::denied_orphan_ips(&self.state).next().is_some()
    }
}

impl Observer for Log<'_> {
    fn spent(&self) -> Duration {
        self.began.elapsed()
    }

    fn receives(&mut self, Message { watch, event }: &Message) {
        self.step = Instant::now();
        self.object = None;
        let status = self.watches.entry(*watch).or_default();
        match event {
            WatchEvent::Fact {
                received, rv, fact, ..
            } => {
                self.timings.received(*received, fact);
                self.object = Some(spans::describe(fact));
                status.rv = *rv;
            }
            WatchEvent::Progress(rv) => status.rv = *rv,
            WatchEvent::Proven { .. } => {
                if status.up {
                    status.error = None;
                }
            }
            WatchEvent::NodeSeen(_) => {}
            WatchEvent::Behind => tracing::warn!(
                %watch,
                "the watch lacks changes that the API server has shown; nothing is denied until it has caught up"
            ),
            WatchEvent::CheckFailed(error) => {
                tracing::debug!(%watch, error, "freshness check failed");
                status.error = Some(error.clone());
            }
            WatchEvent::Rewound(error) => {
                tracing::error!(%watch, error, "nothing is denied until every watch is proven fresh anew");
            }
            WatchEvent::Up => {
                tracing::info!(%watch, "watching");
                status.up = true;
                status.error = None;
            }
            WatchEvent::Down { refused, error } => {
                if *refused && *watch == Watched::ModePolicy {
                    self.mode_policy.refuse();
                }
                tracing::warn!(%watch, error, "watch lost; denials end when the view is too old");
                status.restarts += u64::from(status.up);
                status.up = false;
                status.error = Some(error.clone());
            }
            WatchEvent::Skipped(what) => {
                tracing::warn!(%watch, %what, "object skipped");
                status.skipped += 1;
            }
        }
    }

    fn applied(&mut self, _: &State) {
        if let Some(object) = self.object.take() {
            self.slow_steps.log_if_slow(self.step, || object);
        }
        self.step = Instant::now();
    }

    fn stepped(&mut self, state: &State) {
        self.slow_steps
            .log_if_slow(self.step, || match state.judged() {
                Some(service) => format!("Service {service}, judged"),
                None => "a part of a list".to_owned(),
            });
        self.step = Instant::now();
    }

    fn revived(&mut self, pod: &ObjectName) {
        tracing::error!(
            pod = pod.to_string(),
            "the API shows a dead pod alive, as after a restore of etcd; nothing is denied until everything is listed again"
        );
    }

    fn takes_policy(&mut self, change: Change<ModePolicy>) {
        self.mode_policy.apply(change);
    }
}
