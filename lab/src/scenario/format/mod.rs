//! A scenario file as data. Every error of its form names the file, the line and the correct form.
//!
//! Names of the story are looked up when a step uses them: its failure names the file and the line,
//! too.
#![allow(missing_docs, reason = "lab/SCENARIOS.md documents the keys and words")]

/// Enums of words, which are written in kebab case.
macro_rules! words {
    ($($(#[$of_enum:meta])* $name:ident { $($(#[$of_word:meta])* $word:ident),* })*) => {$(
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Display)]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        pub enum $name { $($(#[$of_word])* $word),* }
    )*};
}

mod call;
mod cast;
mod step;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_saphyr::Spanned;
use strum::Display;

use crate::neighbour::Place;
use crate::net::{Cni, Overlay};

pub use call::{Action, Burst, BurstCaller, Call, ForbiddenIn, Group, Sees};
pub use cast::{
    First, Forbidden, Kubelet, Namespace, NeighbourOptions, NodeServer, Owner, Pod, Service, Wire,
};
pub use step::{
    ABSENT, AddressEvent, AgentStep, ApiStep, CallsInModes, CgroupEvent, Condition, Entries,
    EventOf, LeaseStep, NeighbourStep, Output, Patch, PodEvent, ProxyStep, Rounds, ServerEvent,
    Show, SocketLbStep, Step, Writers,
};

/// One story.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    pub id: String,
    pub title: String,
    #[serde(default)]
    pub tells: Vec<String>,
    pub must: String,
    #[serde(default)]
    pub runs: Runs,
    #[serde(default)]
    pub agent: AgentOptions,
    pub neighbour: Option<NeighbourOptions>,
    #[serde(default)]
    pub pods: BTreeMap<String, Pod>,
    #[serde(default)]
    pub namespaces: BTreeMap<String, Namespace>,
    #[serde(default)]
    pub services: BTreeMap<String, Service>,
    #[serde(default)]
    pub servers: BTreeMap<String, NodeServer>,
    pub steps: Vec<Spanned<Step>>,
}

/// How the agent is started.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct AgentOptions {
    pub mode: Option<String>,
    pub enforce_retired: bool,
    pub xdp: Option<String>,
    pub lease: Option<u32>,
    pub max_view_age: Option<u32>,
    pub action: Option<Action>,
    pub mode_policy: Option<String>,
    pub later: bool,
}

/// Lists of values; the story runs once for each combination.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Runs {
    pub family: Vec<Family>,
    pub caller: Vec<Caller>,
    pub cni: Vec<Cni>,
    pub overlay: Vec<Overlay>,
    pub first: Vec<First>,
    pub place: Vec<Place>,
    pub action: Vec<Action>,
    pub socket_lb: bool,
    pub sample: bool,
    pub long: bool,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            family: vec![Family::Ipv4, Family::Ipv6],
            caller: vec![Caller::Pod],
            cni: vec![Cni::Ptp],
            overlay: vec![Overlay::None],
            first: vec![],
            place: vec![],
            action: vec![],
            socket_lb: true,
            sample: false,
            long: false,
        }
    }
}

words! {
    /// The address family of a run.
    Family { Ipv4, Ipv6 }

    /// The origin of calls without `from`.
    Caller { Pod, Node, Nodeport, Masquerade, SocketLbPod, SocketLbNode, SocketLbHostns, PacketLb }
}

impl Caller {
    /// Whether a load balancer at sockets takes the proxy's place.
    pub fn is_at_sockets(self) -> bool {
        matches!(self, Self::SocketLbPod | Self::SocketLbNode)
    }

    /// Whether there is a load balancer at sockets.
    pub fn has_socket_lb(self) -> bool {
        self.is_at_sockets() || self == Self::SocketLbHostns
    }

    /// Whether a load balancer translates packets of pods.
    pub fn is_per_packet(self) -> bool {
        matches!(self, Self::SocketLbHostns | Self::PacketLb)
    }
}

impl Runs {
    /// Whether each caller has a load balancer at sockets.
    pub fn has_socket_lb(&self) -> bool {
        self.caller.iter().all(|caller| caller.has_socket_lb())
    }

    /// The same story with the callers `socket-lb-pod` and `socket-lb-node`; none if it cannot run
    /// with them.
    pub fn at_sockets(&self) -> Option<Self> {
        let at_sockets = [Caller::SocketLbPod, Caller::SocketLbNode];
        // Hosts of the cluster whose packets are not masqueraded have a counterpart there.
        let can_run = self.socket_lb
            && self.caller.iter().any(|caller| {
                at_sockets.contains(caller) || [Caller::Pod, Caller::Node].contains(caller)
            });
        can_run.then(|| Self {
            caller: at_sockets.into(),
            ..self.clone()
        })
    }
}

/// Words in `sees` and `from` that are not names of pods.
const RESERVED: [&str; 6] = [
    "nothing", "refused", "reset", "node-a", "external", "client",
];

/// Reads a scenario.
pub fn load(path: &Path) -> Result<Scenario> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text, &path.display().to_string())
}

/// Parses a scenario; `file` is for messages. Errors: its form, and mistakes that no step would
/// meet.
pub fn parse(text: &str, file: &str) -> Result<Scenario> {
    let scenario: Scenario = serde_saphyr::from_str(text).map_err(|error| {
        let message = error.without_snippet().to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        match error.location() {
            Some(at) => anyhow!("{file}:{}:{}: {message}", at.line(), at.column()),
            None => anyhow!("{file}: {message}"),
        }
    })?;
    let runs = &scenario.runs;
    let variants = [
        runs.family.len(),
        runs.caller.len(),
        runs.cni.len(),
        runs.overlay.len(),
    ];
    ensure!(
        !variants.contains(&0),
        "{file}: `runs` has an empty list, so that the story would never run"
    );
    ensure!(!scenario.steps.is_empty(), "{file}: the story has no steps");
    ensure!(
        scenario.neighbour.is_some() || runs.place.is_empty(),
        "{file}: `runs` varies a neighbour, and the story has no `neighbour`"
    );
    let reserved = RESERVED
        .iter()
        .find(|word| scenario.pods.contains_key(**word));
    ensure!(
        reserved.is_none(),
        "{file}: no pod can have one of these names: {}",
        RESERVED.join(", ")
    );
    let both = scenario
        .servers
        .keys()
        .find(|name| scenario.pods.contains_key(*name));
    ensure!(
        both.is_none(),
        "{file}: a pod and a server have the same name"
    );
    scenario
        .steps
        .iter()
        .try_for_each(|step| check(step, runs.long, file))?;
    Ok(scenario)
}

/// The longest wait of a story, in seconds, and of one that is `long`.
const LONGEST: [f32; 2] = [60.0, 1800.0];

/// An error if a step waits too long, or expects nothing of an output.
fn check(step: &Spanned<Step>, is_long: bool, file: &str) -> Result<()> {
    let line = step.referenced.line();
    let longest = LONGEST[usize::from(is_long)];
    let beyond = step
        .value
        .waits()
        .into_iter()
        .find(|seconds| !(0.0..=longest).contains(seconds));
    if let Some(seconds) = beyond {
        bail!(
            "{file}:{line}: a wait of {seconds} s is not between 0 and {longest} s: shorten it, or mark the story with \
             `runs: {{long: true}}` (up to {} s)",
            LONGEST[1]
        );
    }
    if let Step::Output(output) = &step.value {
        let is_empty = output.has.is_empty() && output.lacks.is_empty();
        ensure!(!is_empty, "{file}:{line}: `output` needs `has` or `lacks`");
    }
    Ok(())
}

/// A default.
fn number<const N: u16, T: From<u16>>() -> T {
    N.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORY: &str = "
id: s
title: t
must: m
pods:
  A: {is: ns/a, ip: X}
services:
  ns/s: {}
steps:
  - pods: [A starts]
  - check:
      - {call: ns/s, sees: A}
";

    #[test]
    fn entries_that_must_be_absent_must_stay_absent_for_a_second() {
        let hold = |entries: &str| {
            let story = STORY.replace(
                "  - check:",
                &format!("  - maps: {{DENIED: {entries}}}\n  - check:"),
            );
            match &parse(&story, "story.yaml").unwrap().steps[1].value {
                Step::Maps(maps) => maps["DENIED"].hold().as_secs_f32(),
                other => panic!("{other:?}"),
            }
        };
        for (entries, seconds) in [
            ("{count: 0}", 1.0),
            ("{lacks: [{mode: 2}]}", 1.0),
            ("{count: 0, for: 2.5}", 2.5),
            ("{count: 1}", 0.0),
            ("{has: [{mode: 2}], count: 1, lacks: [{mode: 1}]}", 0.0),
            ("{has: [{mode: 2}], for: 3}", 3.0),
        ] {
            assert!((hold(entries) - seconds).abs() < 0.01, "{entries}");
        }
    }

    #[test]
    fn a_long_story_may_wait_for_longer_but_not_for_ever() {
        let wait = |seconds: u32| {
            let step = format!("- maps: {{DENIED: {{for: {seconds}}}}}");
            let story = STORY.replace("must: m", "must: m\nruns: {long: true}");
            parse(&story.replace("- pods: [A starts]", &step), "story.yaml")
        };
        assert!(wait(660).is_ok());
        assert!(
            wait(1801)
                .unwrap_err()
                .to_string()
                .contains("between 0 and 1800 s")
        );
    }

    #[test]
    fn a_mistake_is_named_with_its_place_and_the_words_there_are() {
        assert_eq!(parse(STORY, "story.yaml").unwrap().steps.len(), 2);
        for (from, to, parts) in [
            (
                "ns/s: {}",
                "ns/s: {selektor: {app: a}}",
                &[
                    "selektor",
                    "story.yaml:8:10",
                    "selector",
                    "publish-not-ready-addresses",
                ][..],
            ),
            (
                "A starts",
                "A explodes",
                &["story.yaml", "explodes", "succeeds", "force-deleted"],
            ),
            ("  A: {", "  nothing: {", &["story.yaml", "no pod can have"]),
            (
                "must: m",
                "must: m\nruns: {family: []}",
                &["story.yaml", "never run"],
            ),
            (
                "services:",
                "servers: {A: {}}\nservices:",
                &["story.yaml", "the same name"],
            ),
            (
                "- pods: [A starts]",
                "- maps: {DENIED: {for: 61}}",
                &["story.yaml:10", "61 s", "60 s", "long: true"],
            ),
            (
                "sees: A}",
                "sees: A, within: 61}",
                &["story.yaml:11", "61 s", "60 s"],
            ),
            (
                "- pods: [A starts]",
                "- output: {of: status}",
                &["story.yaml:10", "`has` or `lacks`"],
            ),
        ] {
            assert!(STORY.contains(from), "{from:?} is not in the story");
            let error = format!(
                "{:#}",
                parse(&STORY.replace(from, to), "story.yaml").unwrap_err()
            );
            for part in parts {
                assert!(error.contains(part), "{part} is missing in: {error}");
            }
        }
    }
}
