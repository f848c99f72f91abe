//! Runs one story in one variant.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::burst::Played;
use super::entries;
use super::failure::Failure;
use super::format::{AgentStep, Call, CallsInModes, Entries, LeaseStep, ProxyStep, Scenario, Step};
use super::output::await_output;
use super::stage::Stage;
use super::traffic::{Clients, as_expected};
use super::variant::Variant;
use super::verdicts::Series;
use crate::wait;

/// Lines of the agent's log that a failure shows.
const LOG_LINES: usize = 12;

/// Follows a story. By default it shows nothing, and a claim that does not hold ends the story.
pub trait Presenter {
    /// A step begins, after these bursts.
    fn step(&mut self, _stage: &Stage, _played: &[Played<'_>], _step: &Step) -> Result<()> {
        Ok(())
    }

    /// Answers to calls of a burst are there; not yet all.
    fn answers(&mut self, _so_far: &Played<'_>) {}

    /// A burst is over, and the agent has counted its connections.
    fn counted(&mut self, _played: &Played<'_>) {}

    /// Whether what a text says holds, and what was seen, in words, for when it does not.
    fn claim(&mut self, holds: bool, text: String, seen: String) -> Result<()> {
        ensure!(holds, "expected that {text}, but {seen}");
        Ok(())
    }
}

/// Shows nothing.
impl Presenter for () {}

/// A story in progress.
pub(super) struct RunningStory<'a> {
    scenario: &'a Scenario,
    variant: Variant,
    pub(super) clients: Clients,
    pub(super) played: Vec<Played<'a>>,
    pub(super) presenter: &'a mut dyn Presenter,
    pub(super) stage: Stage,
}

/// How a story is run.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct How {
    /// Leave maps and logs of failed runs in /run/epguard-lab until the next start
    #[arg(long)]
    keep: bool,
    /// `--hooks` of the agent: auto, tcx or clsact
    #[arg(long)]
    pub hooks: Option<String>,
    /// Leave the agent only the capabilities that deploy/epguard.yaml gives it
    #[arg(long)]
    pub least_privilege: bool,
}

/// Runs the story from the beginning, and shows it to a presenter. Returns the stage as the last
/// step has left it.
pub fn tell(
    presenter: &mut dyn Presenter,
    scenario: &Scenario,
    variant: Variant,
    how: &How,
) -> Result<Stage, Box<Failure>> {
    let mut run = RunningStory {
        scenario,
        variant,
        clients: Clients::default(),
        played: Vec::new(),
        presenter,
        stage: Stage::new(scenario, variant, how).map_err(|error| {
            Box::new(Failure {
                line: None,
                error,
                evidence: String::new(),
            })
        })?,
    };
    let mut told = run.stage.catch_up().map_err(|error| (None, error));
    for step in &scenario.steps {
        told = told.and_then(|()| {
            run.step(&step.value)
                .map_err(|error| (Some(step.referenced.line()), error))
        });
    }
    let Err((line, error)) = told else {
        return Ok(run.stage);
    };
    let evidence = run.evidence();
    if how.keep {
        run.stage.workdir.keep();
    }
    Err(Box::new(Failure {
        line,
        error,
        evidence,
    }))
}

impl<'a> RunningStory<'a> {
    fn step(&mut self, step: &'a Step) -> Result<()> {
        self.presenter.step(&self.stage, &self.played, step)?;
        match step {
            Step::BeforeEpguard(calls) => {
                calls.iter().try_for_each(|call| self.without_agent(call))
            }
            Step::Pods(steps) => steps
                .iter()
                .try_for_each(|step| self.stage.pod_event(&step.name, step.event)),
            Step::Slices(slices) => slices.iter().try_for_each(|(service, endpoints)| {
                self.stage.cluster.set_slice(service, endpoints)
            }),
            Step::Proxy(ProxyStep::Sync(_)) => self.stage.cluster.sync_proxy(),
            Step::Proxy(ProxyStep::Set(backends)) => self.stage.cluster.set_proxy(backends),
            Step::HostPorts(ports) => self.stage.cluster.set_host_ports(ports),
            Step::Servers(steps) => steps
                .iter()
                .try_for_each(|step| self.stage.cluster.server_event(&step.name, step.event)),
            Step::Addresses(steps) => steps
                .iter()
                .try_for_each(|step| self.stage.cluster.address_event(&step.name, step.event)),
            Step::Apply(objects) => self.stage.cluster.apply(objects),
            Step::Patch(patch) => self.stage.cluster.patch(patch),
            Step::Delete(objects) => self.stage.cluster.delete(objects),
            Step::Burst(burst) => self.burst(burst),
            Step::Epguard(words) => self.stage.agent.run(words),
            Step::Maps(tables) | Step::Dump(tables) => {
                self.stage.catch_up()?;
                let is_dump = matches!(step, Step::Dump(_));
                tables
                    .iter()
                    .try_for_each(|(table, expected)| self.table(table, is_dump, expected))
            }
            Step::Output(expected) => {
                self.stage.catch_up()?;
                await_output(&self.stage, expected)
            }
            Step::Log(lines) => lines.iter().try_for_each(|texts| self.logged(texts)),
            Step::Agent(AgentStep::Killed) => {
                self.stage.agent.kill();
                Ok(())
            }
            Step::Agent(AgentStep::Started) => self.stage.agent.start_again(),
            Step::Neighbour(step) => self.stage.neighbour(*step),
            Step::SocketLb(step) => self.stage.socket_lb(*step),
            Step::Cgroups(steps) => self.stage.cgroups(steps),
            Step::Api(step) => {
                self.stage.cluster.set_api(*step);
                Ok(())
            }
            Step::Lease(step) => self.stage.agent.await_lease(*step == LeaseStep::Held),
            Step::Writers(writers) => self
                .stage
                .write_at_once(writers, self.scenario.agent.mode_policy.as_deref()),
            Step::Heading(_) | Step::Say(_) | Step::Note(_) | Step::Show(_) => Ok(()),
            Step::Check(_)
            | Step::Interleave(_)
            | Step::EveryMode(_)
            | Step::Off(_)
            | Step::Observe(_)
            | Step::Enforce(_) => self.calls(&step.calls()),
        }
    }

    /// Makes a call before the agent starts. Only the clients' results are checked.
    fn without_agent(&mut self, call: &Spanned<Call>) -> Result<()> {
        let cluster = &self.stage.cluster;
        let sees = &call.value.sees;
        let answers = self
            .clients
            .make(&call.value, sees, cluster, self.variant)?;
        as_expected(sees, &answers).with_context(|| format!("line {}", call.referenced.line()))
    }

    fn calls(&mut self, step: &CallsInModes<'_>) -> Result<()> {
        self.stage.catch_up()?;
        let mut series = Series::new(self.scenario, &self.stage, self.variant)?;
        for mode in step.modes {
            self.stage.agent.run(&format!("mode {}", mode.as_str()))?;
            series.mode = *mode;
            for call in (0..step.rounds).flat_map(|_| step.calls) {
                series
                    .make(&call.value, &mut self.clients)
                    .with_context(|| format!("line {}", call.referenced.line()))?;
            }
        }
        // Their senders get no answer; their retransmissions would be counted among later calls.
        let denied = step.calls.iter().filter(|call| call.value.denied.is_some());
        for flow in denied.filter_map(|call| call.value.on.as_ref()) {
            self.clients.silence(flow);
        }
        Ok(())
    }

    /// Compares a map, or a table of `epguard dump`, with what the story expects or claims.
    fn table(&mut self, table: &str, is_dump: bool, expected: &Entries) -> Result<()> {
        let outcome = if is_dump {
            self.entries(expected, || self.dumped(table))
                .with_context(|| format!("epguard dump: {table}"))
        } else {
            let pin_dir = &self.stage.agent.pin_dir;
            self.entries(expected, || entries::read(pin_dir, table))
                .with_context(|| table.to_owned())
        };
        let Some(text) = &expected.claim else {
            return outcome;
        };
        let wrong = match &outcome {
            Ok(()) => String::new(),
            Err(error) => format!("{error:#}"),
        };
        self.presenter.claim(outcome.is_ok(), text.clone(), wrong)
    }

    /// The rows of a table of `epguard dump`.
    fn dumped(&self, table: &str) -> Result<Vec<Value>> {
        let dump = self.stage.agent.dump()?;
        Ok(dump[table].as_array().cloned().unwrap_or_default())
    }

    /// Waits for the expected entries: those that depend on the node's routes follow them after a
    /// moment. Then they must hold.
    fn entries(&self, expected: &Entries, read: impl Fn() -> Result<Vec<Value>>) -> Result<()> {
        let names = &self.stage.cluster.names;
        let mut expanded = expected.clone();
        for value in expanded.has.iter_mut().chain(&mut expanded.lacks) {
            *value = names.expand(value)?;
        }
        await_and_hold(expected.hold(), || {
            let seen = read()?;
            let mismatch = entries::mismatch(&expanded, &seen);
            Ok(mismatch.map(|what| format!("{what}; seen:\n  {}", shown(&seen))))
        })
    }

    fn logged(&self, texts: &[String]) -> Result<()> {
        let texts: Vec<String> = texts
            .iter()
            .map(|text| self.stage.cluster.names.expand_text(text))
            .collect::<Result<_>>()?;
        // Log lines come through a ring buffer, a little after the verdict.
        wait::until(Duration::from_millis(5), || {
            let log = self.stage.agent.log();
            let is_there = log
                .lines()
                .any(|line| texts.iter().all(|text| line.contains(text)));
            Ok((!is_there)
                .then(|| format!("no line of the agent's log has {}", texts.join(" and "))))
        })
    }

    fn evidence(&self) -> String {
        let log = self.stage.agent.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n  ");
        let mut evidence = format!("agent's log:\n  {last}\n");
        for map in ["SUSPECTS", "SERVICES", "DENIED", "TERMINATED", "OWNERS"] {
            let entries = entries::read(&self.stage.agent.pin_dir, map);
            let shown =
                entries.map_or_else(|error| format!("{error:#}"), |entries| shown(&entries));
            evidence.extend([map, ":\n  ", &shown, "\n"]);
        }
        evidence
    }
}

/// Waits until nothing is missing, and then for as long as nothing may be.
pub(super) fn await_and_hold(
    hold: Duration,
    missing: impl Fn() -> Result<Option<String>>,
) -> Result<()> {
    let every = Duration::from_millis(20);
    wait::until(every, &missing)?;
    let since = Instant::now();
    while since.elapsed() < hold {
        std::thread::sleep(every);
        if let Some(what) = missing()? {
            bail!(
                "it held for {:?} instead of {hold:?}: {what}",
                since.elapsed()
            );
        }
    }
    Ok(())
}

/// Entries of a table, one a line.
fn shown(entries: &[Value]) -> String {
    entries
        .iter()
        .map(Value::to_string)
        .collect::<Vec<_>>()
        .join("\n  ")
}
