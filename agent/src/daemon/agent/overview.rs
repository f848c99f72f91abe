//! The agent's answers to requests at the status socket.

use super::Agent;
use crate::daemon::{breaker, telemetry};
use crate::shared::clock::{Clocks, boot as now, milliseconds};
use crate::shared::status::{
    Conflict, Evicted, Figures, Fill, Partial, Question, Request, Status, Watch,
};
use anyhow::Result;
use epguard_common::{Addr, capacity};
use epguard_core::facts::Watched;
use epguard_core::history::Chronicle;
use epguard_core::state::{IpState, report};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

impl Agent {
    /// Answers a request. A client that has disconnected is no error.
    pub fn on_question(&mut self, question: Question) -> Result<()> {
        let answer = match &question.request {
            Request::History(ip) => self.history_of(*ip),
            Request::ReleaseBreaker(service) => {
                self.breaker.release(now(), &mut self.state, service);
                self.write()?;
                self.status()
            }
            Request::Figures => self.recent_figures(),
            Request::Drops => {
                self.report
                    .count_all(now(), &self.state, &mut self.writer)?;
                Status {
                    drops: Some(self.report.tally.all(now())),
                    ..Status::default()
                }
            }
            Request::Log => Status {
                log: Some(telemetry::recent()),
                ..Status::default()
            },
            Request::Ready => self.readiness(),
            Request::Alive => Status::default(),
            Request::Status => self.status(),
        };
        let _ = question.answer.send(answer);
        Ok(())
    }

    fn status(&self) -> Status {
        Status {
            pods: self.pod_names(),
            services: self
                .state
                .numbers()
                .iter()
                .map(|(name, number)| (number.number.to_string(), name.to_string()))
                .collect(),
            ..self.figures()
        }
    }

    /// The figures, computed again once that has taken no more than half a percent of the time
    /// since, or 10 s have passed: any client may ask for them.
    fn recent_figures(&mut self) -> Status {
        let began = now();
        match &self.recent {
            Some((until, figures)) if began < *until => figures.clone(),
            _ => {
                let figures = self.figures();
                let pause = (now().saturating_sub(began) * 200).min(Duration::from_secs(10));
                self.recent = Some((began + pause, figures.clone()));
                figures
            }
        }
    }

    /// The status without names, whose cost grows with the number of pods.
    fn figures(&self) -> Status {
        let (count, first) = report::read_in_part(&self.state);
        let config = self.writer.config.read_config().ok();
        let conflicts = self.report.open_conflicts(&self.state);
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Status {
            kernel: kernel.trim_end().to_owned(),
            mode_source: self.mode_policy.in_force().source,
            mode_policy: self.mode_policy.problem(config.as_ref()),
            reasons: self.writer.config.reasons(),
            actions: config.map_or_else(BTreeMap::new, |config| {
                self.mode_policy.actions_in_force(&config)
            }),
            mode: config.map(|config| config.mode),
            ranges: (&self.state.cluster().settings.ranges).into(),
            applied: self.applied(),
            translators: self.node.seen.translators.shown.clone(),
            socket_lb: self.node.seen.socket_lb.clone(),
            redirect_waits: self.state.redirects() && !self.writer.translates_replies(),
            latency: self.timings.latency.figures(),
            conflicts: conflicts
                .map(|(ip, pods)| Conflict {
                    ip: ip.to_string(),
                    pods,
                })
                .collect(),
            refused: self.refused,
            refused_by_namespace: self.state.tables().refused.clone(),
            breaker: breaker::stopped_denials(&self.state, now()),
            wrong_denies: self.state.review().wrong.clone(),
            demoted: self.writer.config.demoted(),
            demoted_services: self
                .state
                .demoted()
                .iter()
                .map(ToString::to_string)
                .collect(),
            unproven: report::unproven_deaths(&self.state),
            possible_holders: report::possible_holders(&self.state, now()),
            left_out: report::left_out(&self.state),
            partial: Partial { count, first },
            rivals: report::rivals(&self.state),
            figures: self.counted(),
            ..self.readiness()
        }
    }

    /// The resourceVersion of each watch up to which the maps are written.
    fn applied(&self) -> BTreeMap<Watched, u64> {
        let mut applied = BTreeMap::new();
        for (id, watch) in &self.watches {
            let version = match id {
                // It waits for the sync.
                Watched::ModePolicy => self.policy_version,
                _ => Some(watch.rv),
            };
            if let Some(version) = version {
                applied.insert(*id, version);
            }
        }
        applied
    }

    /// What readiness depends on. It costs the same in any cluster: no tenant can make a probe
    /// late.
    fn readiness(&self) -> Status {
        let now = now();
        let tables = self.state.tables();
        let interfaces = self.node.seen.interfaces.iter();
        let mut status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.state.node().to_owned(),
            synced: self.state.is_synced(),
            watches: self
                .watches
                .iter()
                .map(|(id, watch)| (*id, self.with_age(*id, watch.clone(), now)))
                .collect(),
            lease_ms: self.lease.left_ms(now),
            view_age_ms: self
                .lease
                .view
                .age(now)
                .map(|age| milliseconds(age).unsigned_abs()),
            interfaces: interfaces
                .map(|interface| interface.shown.clone())
                .collect(),
            unanswered: self.node.seen.unanswered.clone(),
            ..Status::default()
        };
        let ips = &mut status.figures.ips;
        ips.insert(IpState::Denied, tables.denied.len() as u64);
        ips.insert(
            IpState::Terminated,
            report::denied_orphan_ips(&self.state).count() as u64,
        );
        status
    }

    fn counted(&self) -> Figures {
        let counts = report::pod_counts(&self.state);
        let tables = self.state.tables();
        let maps = [
            (
                "OWNERS",
                usize::try_from(counts.ips[&IpState::Owned]).unwrap_or(usize::MAX),
                capacity::OWNERS,
            ),
            ("SUSPECTS", tables.suspects.len(), capacity::SUSPECTS),
            ("SERVICES", tables.services.len(), capacity::SERVICES),
            ("DENIED", tables.denied.len(), capacity::DENIED),
            ("BACKENDS", tables.backends.len(), capacity::BACKENDS),
            ("FLOWS", self.writer.redirected(), capacity::FLOWS),
            ("TERMINATED", tables.terminated.len(), capacity::TERMINATED),
            (
                "INTERFACES",
                self.node.seen.interfaces.len(),
                capacity::INTERFACES,
            ),
        ];
        let (possibly_held_services, oldest) = report::possibly_held(&self.state, now());
        Figures {
            stale_services: self.report.tally.stale_services(now()),
            possibly_held_services,
            possibly_held_ms: oldest.map(|oldest| milliseconds(oldest).unsigned_abs()),
            pods: counts.pods,
            ips: counts.ips,
            maps: maps
                .map(|(name, entries, capacity)| (name.to_owned(), Fill { entries, capacity }))
                .into(),
            api: self.pace.figures(),
            evicted: Evicted {
                drops: self.report.tally.evicted(),
                review: self.state.review().evicted,
            },
            events_skipped: self.report.budget.skipped(),
            uncounted: self.writer.uncounted(),
            passed: self.writer.passed(),
            leases_lost: self.lease.lost(),
            ..self.timings.figures.clone()
        }
    }

    fn pod_names(&self) -> BTreeMap<String, String> {
        let owners = self
            .state
            .owners()
            .filter_map(|uid| Some((uid, self.state.pod_name(uid)?.to_string())));
        let denied = self
            .report
            .names
            .known()
            .iter()
            .map(|(uid, name)| (*uid, name.to_string()));
        denied
            .chain(owners)
            .map(|(uid, name)| (uid.to_string(), name))
            .collect()
    }

    fn with_age(&self, id: Watched, watch: Watch, now: Duration) -> Watch {
        let (age, by) = self.lease.view.age_of(id, now).unzip();
        let silent = self.denies() && self.lease.view.is_stale(id, now);
        let mut error = watch.error;
        if silent && error.is_none() {
            error = Some("connected, but not proven fresh in time".to_owned());
        }
        Watch {
            up: watch.up && !silent,
            error,
            age_ms: age.map(|age| milliseconds(age).unsigned_abs()),
            proven_by: by,
            ..watch
        }
    }

    /// Records what changed. Runs after the maps are written: no verdict waits for its record.
    pub(super) fn record_history(&mut self) {
        let rv = self
            .watches
            .values()
            .map(|watch| watch.rv)
            .max()
            .unwrap_or(0);
        self.history.record(now(), rv, &mut self.state);
    }

    /// A status with only the history of one IP, and what `epguard why` explains beside it.
    pub(super) fn history_of(&self, ip: IpAddr) -> Status {
        let clocks = Clocks::now();
        // `epguard mode` may have changed it.
        let mode = self
            .writer
            .config
            .read_config()
            .map_or("unknown", |config| config.mode.as_str());
        // Without a denial the lease is not renewed, and none is needed.
        let mode = if self.lease.deadline() > clocks.boot || !self.denies() {
            mode.to_owned()
        } else {
            format!("{mode} without a lease (everything passes)")
        };
        let ip = Addr::from(ip);
        let chronicle = Chronicle {
            now_ms: u64::try_from(clocks.boot.as_millis()).unwrap_or(u64::MAX),
            wall_ms: milliseconds(clocks.real),
            mode,
            ..self.history.chronicle(ip, report::view_ip(&self.state, ip))
        };
        Status {
            history: Some(Box::new(chronicle)),
            translators: self.node.seen.translators.shown.clone(),
            ..Status::default()
        }
    }
}
