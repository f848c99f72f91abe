//! Tells one story in one variant.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use epguard_common::Mode;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::cluster::object_ref;
use super::format::{AgentStep, Call, Entries, LeaseStep, ProxyStep, Scenario, Step};
use super::stage::Stage;
use super::traffic::Clients;
use super::variant::Variant;
use super::verdicts::Series;
use super::{bpftool, matching, writers};

/// Log lines come through a ring buffer, a little after the verdict, and what rests on the node's own routes follows those.
const PATIENCE: Duration = Duration::from_mins(1);
/// Lines of the agent's log that a failure shows.
const LOG_LINES: usize = 12;

/// Why a run failed.
#[derive(Debug)]
pub struct Failure {
    /// The line of the step in the file; none if it went wrong before the first.
    pub line: Option<u64>,
    /// What was expected and what was seen.
    pub error: anyhow::Error,
    /// The agent's last log lines and what the maps held.
    pub evidence: String,
}

/// A story being told.
struct Run<'a> {
    scenario: &'a Scenario,
    variant: Variant,
    clients: Clients,
    stage: Stage,
}

/// Tells the story from the beginning, with `--hooks` of the agent if given. With `keep` its directory and maps stay after
/// a failure.
pub fn tell(
    scenario: &Scenario,
    variant: Variant,
    hooks: Option<&str>,
    keep: bool,
) -> Result<(), Box<Failure>> {
    let unprepared = |error| {
        Box::new(Failure {
            line: None,
            error,
            evidence: String::new(),
        })
    };
    let mut run = Run::prepare(scenario, variant, hooks).map_err(unprepared)?;
    let mut told = run.stage.catch_up().map_err(|error| (None, error));
    for step in &scenario.steps {
        told = told.and_then(|()| {
            run.step(&step.value)
                .map_err(|error| (Some(step.referenced.line()), error))
        });
    }
    told.map_err(|(line, error)| {
        let evidence = run.evidence();
        if keep {
            run.stage.workdir.keep();
        }
        Box::new(Failure {
            line,
            error,
            evidence,
        })
    })
}

impl<'a> Run<'a> {
    fn prepare(scenario: &'a Scenario, variant: Variant, hooks: Option<&str>) -> Result<Self> {
        Ok(Self {
            scenario,
            variant,
            clients: Clients::default(),
            stage: Stage::new(scenario, variant, hooks)?,
        })
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Pods(steps) => steps
                .iter()
                .try_for_each(|step| self.stage.pod_event(&step.pod, step.event)),
            Step::Slices(slices) => slices
                .iter()
                .try_for_each(|(service, endpoints)| self.stage.cluster.set_slice(service, endpoints)),
            Step::Proxy(ProxyStep::Sync(_)) => self.stage.cluster.sync_proxy(),
            Step::Proxy(ProxyStep::Set(backends)) => self.stage.cluster.set_proxy(backends),
            Step::Apply(objects) => objects.iter().try_for_each(|object| {
                let object = self.stage.cluster.names.expand(object)?;
                if let Some(namespace) = object["metadata"]["namespace"].as_str() {
                    self.stage.cluster.store.ensure_namespace(namespace)?;
                }
                self.stage.cluster.store.apply(object)?;
                Ok(())
            }),
            Step::Patch(patch) => {
                let merge = self.stage.cluster.names.expand(&patch.merge)?;
                self.stage.cluster.store.patch(
                    &object_ref(&self.stage.cluster.names.expand_text(&patch.of)?)?,
                    &merge,
                )?;
                Ok(())
            }
            Step::Delete(objects) => objects.iter().try_for_each(|what| {
                self.stage
                    .cluster
                    .delete(&self.stage.cluster.names.expand_text(what)?)
            }),
            Step::Check(calls) => self.calls(&[Mode::Observe, Mode::Enforce], 1, calls),
            Step::Interleave(rounds) => {
                self.calls(&[Mode::Observe, Mode::Enforce], rounds.rounds, &rounds.calls)
            }
            Step::EveryMode(calls) => self.calls(&[Mode::Off, Mode::Observe, Mode::Enforce], 1, calls),
            Step::Off(calls) => self.calls(&[Mode::Off], 1, calls),
            Step::Observe(calls) => self.calls(&[Mode::Observe], 1, calls),
            Step::Enforce(calls) => self.calls(&[Mode::Enforce], 1, calls),
            Step::Maps(maps) => {
                self.stage.catch_up()?;
                maps.iter()
                    .try_for_each(|(map, expected)| self.map(map, expected))
            }
            Step::Dump(tables) => {
                self.stage.catch_up()?;
                let dump = self.stage.agent.dump()?;
                tables.iter().try_for_each(|(table, expected)| {
                    let entries = dump[table].as_array().map(Vec::as_slice).unwrap_or_default();
                    self.entries(expected, entries)
                        .with_context(|| format!("epguard dump: {table}"))
                })
            }
            Step::Log(lines) => lines.0.iter().try_for_each(|texts| self.logged(texts)),
            Step::Agent(AgentStep::Killed) => {
                self.stage.agent.kill();
                Ok(())
            }
            Step::Agent(AgentStep::Started) => self.stage.agent.start_again(),
            Step::Neighbour(step) => self.stage.neighbour(*step),
            Step::Api(step) => {
                self.stage.cluster.set_api(*step);
                Ok(())
            }
            Step::Lease(step) => self.stage.agent.await_lease(*step == LeaseStep::Held),
            Step::Writers(writers) => {
                let map = self.scenario.agent.fleet_config.as_deref();
                writers::write(&self.stage, map, writers)
            }
        }
    }

    fn calls(&mut self, modes: &[Mode], rounds: u32, calls: &[Spanned<Call>]) -> Result<()> {
        self.stage.catch_up()?;
        let mut series = Series::new(self.scenario, &self.stage, self.variant);
        for mode in modes {
            self.stage.agent.set_mode(*mode)?;
            series.enter(*mode);
            for call in (0..rounds).flat_map(|_| calls) {
                let line = || format!("line {}", call.referenced.line());
                series.make(&call.value, &mut self.clients).with_context(line)?;
            }
        }
        // Their senders never hear of it; their retransmissions would be counted among later calls.
        let denied = calls.iter().filter(|call| call.value.denied.is_some());
        for flow in denied.filter_map(|call| call.value.on.as_ref()) {
            self.clients.silence(flow);
        }
        Ok(())
    }

    /// What rests on the node's own routes follows them by a moment.
    fn map(&self, map: &str, expected: &Entries) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.entries(expected, &bpftool::entries(self.stage.agent.pin_dir(), map)?);
            if seen.is_ok() || Instant::now() >= deadline {
                return seen.with_context(|| map.to_owned());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn entries(&self, expected: &Entries, seen: &[Value]) -> Result<()> {
        let expand = |values: &[Value]| {
            values
                .iter()
                .map(|value| self.stage.cluster.names.expand(value))
                .collect::<Result<_>>()
        };
        let expected = Entries {
            has: expand(&expected.has)?,
            lacks: expand(&expected.lacks)?,
            count: expected.count,
        };
        let mismatch = matching::mismatch(&expected, seen);
        let shown = || seen.iter().map(Value::to_string).collect::<Vec<_>>().join("\n  ");
        ensure!(
            mismatch.is_none(),
            "{}; seen:\n  {}",
            mismatch.unwrap_or_default(),
            shown()
        );
        Ok(())
    }

    fn logged(&self, texts: &[String]) -> Result<()> {
        let texts: Vec<String> = texts
            .iter()
            .map(|text| self.stage.cluster.names.expand_text(text))
            .collect::<Result<_>>()?;
        let deadline = Instant::now() + PATIENCE;
        while !self
            .stage
            .agent
            .log()
            .lines()
            .any(|line| texts.iter().all(|text| line.contains(text)))
        {
            ensure!(
                Instant::now() < deadline,
                "expected a line of the agent's log with {}",
                texts.join(" and ")
            );
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn evidence(&self) -> String {
        let log = self.stage.agent.log();
        let lines: Vec<&str> = log.lines().collect();
        let mut evidence = String::from("agent's log:\n");
        for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
            let _ = writeln!(evidence, "  {line}");
        }
        for map in ["SUSPECTS", "SERVICES", "DENIED", "TERMINATED", "OWNERS"] {
            let entries = bpftool::entries(self.stage.agent.pin_dir(), map);
            let _ = writeln!(evidence, "{map}:");
            match entries {
                Ok(entries) => entries.iter().for_each(|entry| {
                    let _ = writeln!(evidence, "  {entry}");
                }),
                Err(error) => {
                    let _ = writeln!(evidence, "  {error:#}");
                }
            }
        }
        evidence
    }
}
