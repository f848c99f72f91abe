//! `kubectl epguard breaker`: the denials that the breaker stops, on all nodes, and their release by
//! the mode policy.
//!
//! A release names the newest resourceVersion that any of the shown agents had seen when it stopped
//! one of the shown denials. An agent that stops a denial later has seen a newer one, so that a
//! release that stays in the `ConfigMap` releases nothing else. If the `ConfigMap` names that
//! resourceVersion already, a release of the same again names the next one.

use super::agents::Fleet;
use super::answers::{FleetAnswers, NodeAnswer, name_nodes};
use super::ask::{PATIENCE, ask_nodes, command_line};
use super::change_report::ChangeReport;
use super::policy_change::PolicyChange;
use super::policy_map::PolicyMap;
use super::switch::switch_nodes;
use anyhow::{Result, ensure};
use clap::Args;
use epguard_client::shared::args::service_or_all;
use epguard_client::shared::cards::columned_or_cards;
use epguard_client::shared::output::{Column, print, seconds};
use epguard_client::shared::screen::Screen;
use epguard_client::shared::status::{Status, StoppedDenials};
use epguard_core::facts::{BreakerRelease, ObjectName, PolicyKey};
use epguard_core::state::StopReason;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Options of `kubectl epguard breaker`.
#[derive(Debug, Args)]
#[command(after_help = "\
A release is a key of the ConfigMap that all agents watch (--mode-policy). It releases what is \
shown, and nothing that is stopped later. The command waits until each agent has released it. With \
--node or --selector the agents there release what they stop. Services that are only observed \
because a denial was wrong stay so, but for those of chosen nodes.

Without --timeout it waits 5 s for each node, also until it has released, and 30 s for each answer \
of the API server.

Exit code: 0 shown, or released on every node; 1 it is written, and a node has not released it; 2 a \
node did not answer, or nothing is changed.

Examples:
  kubectl epguard breaker                       stopped denials by Service
  kubectl epguard breaker --release             carry them all out
  kubectl epguard breaker --release shop/web    those of one Service
  kubectl epguard breaker --release shop/web --node worker-1")]
pub struct FleetBreakerArgs {
    /// Enforce the stopped denials of a Service, or of all, without a second list
    #[arg(long, value_name = "NAMESPACE/NAME", num_args = 0..=1, default_missing_value = "", value_parser = service_or_all)]
    pub release: Option<String>,
    /// Do not ask before the change
    #[arg(short, long, requires = "release")]
    pub yes: bool,
}

/// What the nodes stop of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StoppedOnNodes {
    service: String,
    /// The largest number of endpoints (IPs) on a node.
    stopped: usize,
    ready_recently: usize,
    since_ms: u64,
    resource_version: u64,
    why: StopReason,
    nodes: Vec<String>,
}

const COLUMNS: [Column<StoppedOnNodes>; 6] = [
    ("SERVICE", |service| service.service.clone()),
    ("STOPPED", |service| service.stopped.to_string()),
    ("READY RECENTLY", |service| {
        service.ready_recently.to_string()
    }),
    ("FOR", |service| seconds(service.since_ms)),
    ("WHY", |service| service.why.to_string()),
    ("NODES", |service| {
        format!("{}: {}", service.nodes.len(), name_nodes(&service.nodes))
    }),
];

/// Shows or releases. Errors: the `ConfigMap` cannot be read, the change is refused, or the answer
/// was not yes.
pub async fn run(fleet: &Fleet, args: &FleetBreakerArgs) -> Result<ExitCode> {
    match &args.release {
        Some(service) if fleet.scope.is_whole() => release(fleet, service, args.yes).await,
        Some(service) => release_on_nodes(fleet, service, args.yes).await,
        None => {
            let asked: FleetAnswers<Vec<StoppedDenials>> =
                ask_nodes(fleet, &["breaker"], PATIENCE).await;
            asked.print(fleet.scope.output, Value::Null, |answers| {
                table(&merge(answers), fleet.scope.screen())
            })
        }
    }
}

/// Writes a release of what all nodes stop now, of a Service or of all.
async fn release(fleet: &Fleet, service: &str, yes: bool) -> Result<ExitCode> {
    let output = fleet.scope.output;
    let policy = PolicyMap::fetch(fleet).await?;
    let asked: FleetAnswers<Vec<StoppedDenials>> = ask_nodes(fleet, &["breaker"], PATIENCE).await;
    let mut stopped = merge(&asked.answers);
    stopped.retain(|found| service.is_empty() || found.service == service);
    let screen = fleet.scope.screen();
    let mut now = table(&stopped, screen);
    let absent = screen.fold(&asked.absent());
    if !absent.is_empty() {
        now = format!("{now}\n{absent}");
    }
    let current = policy.value(PolicyKey::BreakerRelease);
    let Some(release) = release_of(&stopped, service, current)? else {
        let report = ChangeReport::new(&policy.name, Vec::new());
        let document = asked.document(serde_json::to_value(report)?);
        print(&output.of_documents().text(&document, |_| now)?)?;
        return Ok(asked.code().into());
    };
    let change = PolicyChange {
        keys: [(PolicyKey::BreakerRelease, Some(release.to_string()))].into(),
        about: "a release: what is stopped later stays stopped",
        now: &now,
        mode: None,
        yes,
    };
    let missed = |status: &Status| still_stopped(status, &release);
    let code = change.carry_out(fleet, policy, missed).await?;
    Ok(code.into())
}

/// Runs `epguard breaker --release` on each chosen node. Errors: the answer was not yes.
async fn release_on_nodes(fleet: &Fleet, service: &str, yes: bool) -> Result<ExitCode> {
    let named = (!service.is_empty()).then_some(service);
    let what = format!("release {}", named.unwrap_or("all Services"));
    let words: &[&str] = match named {
        Some(_) => &["breaker"],
        None => &["breaker", "--release"],
    };
    let command = command_line(words, &[("--release", named)]);
    switch_nodes(fleet, &what, "", &command, yes).await
}

/// The release of what was found; none if nothing is stopped. `current` is the value that the
/// `ConfigMap` has. Errors: an agent is older than releases by the mode policy.
fn release_of(
    stopped: &[StoppedOnNodes],
    service: &str,
    current: Option<&str>,
) -> Result<Option<BreakerRelease>> {
    for found in stopped {
        ensure!(
            found.resource_version > 0,
            "nothing is changed: agents of {} do not read a release from the ConfigMap: upgrade them, or pass --node",
            name_nodes(&found.nodes)
        );
    }
    let Some(until) = stopped.iter().map(|found| found.resource_version).max() else {
        return Ok(None);
    };
    let mut release = BreakerRelease {
        until,
        services: ObjectName::parse(service).into_iter().collect(),
    };
    // A node carries out each value once. What it did not carry out of this one, since a starting pod
    // kept it from being proven, takes a value that no node has seen.
    if let Some(current) = current.and_then(BreakerRelease::parse)
        && current.services == release.services
        && current.until >= until
    {
        release.until = current.until.saturating_add(1);
    }
    Ok(Some(release))
}

/// Of which Service a node still stops what is released; none if it has released everything.
fn still_stopped(status: &Status, release: &BreakerRelease) -> Option<String> {
    for stopped in &status.breaker {
        let is_named = ObjectName::parse(&stopped.service).is_some_and(|name| release.names(&name));
        if is_named && stopped.resource_version <= release.until {
            return Some(format!("it still stops denials of {}", stopped.service));
        }
    }
    None
}

/// A row for each Service, with all nodes that stop its denials.
fn merge(answers: &[NodeAnswer<Vec<StoppedDenials>>]) -> Vec<StoppedOnNodes> {
    let mut services: BTreeMap<&str, StoppedOnNodes> = BTreeMap::new();
    for answer in answers {
        for found in &answer.known {
            let merged = services
                .entry(&found.service)
                .or_insert_with(|| StoppedOnNodes {
                    service: found.service.clone(),
                    stopped: 0,
                    ready_recently: 0,
                    since_ms: 0,
                    // An agent that does not show it decides.
                    resource_version: found.resource_version,
                    why: found.why,
                    nodes: Vec::new(),
                });
            merged.stopped = merged.stopped.max(found.stopped);
            merged.ready_recently = merged.ready_recently.max(found.ready_recently);
            merged.since_ms = merged.since_ms.max(found.since_ms);
            merged.why = merged.why.max(found.why);
            merged.resource_version = match (merged.resource_version, found.resource_version) {
                (0, _) | (_, 0) => 0,
                (some, other) => some.max(other),
            };
            merged.nodes.push(answer.node().to_owned());
        }
    }
    services.into_values().collect()
}

fn table(stopped: &[StoppedOnNodes], screen: Screen) -> String {
    if stopped.is_empty() {
        return "no denial is stopped".to_owned();
    }
    columned_or_cards(screen, &COLUMNS, stopped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_client::shared::screen::{TESTED, assert_fits};

    fn found(service: &str, resource_version: u64) -> StoppedDenials {
        StoppedDenials {
            service: service.into(),
            stopped: 3,
            ready_recently: 4,
            since_ms: 2_000,
            resource_version,
            why: StopReason::MoreThanHalf,
        }
    }

    fn merged(all: &[StoppedDenials]) -> Vec<StoppedOnNodes> {
        let stopped = all.iter().map(|found| StoppedOnNodes {
            service: found.service.clone(),
            stopped: found.stopped,
            ready_recently: found.ready_recently,
            since_ms: found.since_ms,
            resource_version: found.resource_version,
            why: found.why,
            nodes: vec!["worker-1".into()],
        });
        stopped.collect()
    }

    #[test]
    fn a_release_reaches_to_the_last_stop_that_was_shown() {
        let all = merged(&[found("shop/cart", 15), found("shop/web", 12)]);
        let of_all = release_of(&all, "", None).unwrap().unwrap();
        assert_eq!(of_all.to_string(), "15");
        let of_one = release_of(&all[1..], "shop/web", Some("15"))
            .unwrap()
            .unwrap();
        assert_eq!(of_one.to_string(), "12 shop/web");
        assert_eq!(release_of(&[], "", None).unwrap(), None);
        let older = merged(&[found("shop/web", 0)]);
        assert!(release_of(&older, "", None).is_err());
    }

    #[test]
    fn what_is_shown_stopped_after_a_release_is_released_by_another_value() {
        let all = merged(&[found("shop/web", 12)]);
        let again = release_of(&all, "shop/web", Some("12 shop/web")).unwrap();
        assert_eq!(again.unwrap().to_string(), "13 shop/web");
        let once_more = release_of(&all, "shop/web", Some("13 shop/web")).unwrap();
        assert_eq!(once_more.unwrap().to_string(), "14 shop/web");
    }

    #[test]
    fn a_node_lacks_a_release_while_it_stops_what_is_released_and_not_for_later_stops() {
        let release = BreakerRelease::parse("12 shop/web").unwrap();
        let of = |service: &str, version: u64| Status {
            breaker: vec![found(service, version)],
            ..Status::default()
        };
        let still = still_stopped(&of("shop/web", 12), &release);
        assert_eq!(still.as_deref(), Some("it still stops denials of shop/web"));
        for other in [of("shop/web", 13), of("shop/cart", 12), Status::default()] {
            assert_eq!(still_stopped(&other, &release), None);
        }
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let mut all = merged(&[found("shop/web", 12), found("payments/api-gateway", 12)]);
        all[1].nodes = vec!["ip-10-0-131-7.eu-west-1.compute.internal".into(); 9];
        for width in TESTED {
            let width = Some(width);
            let screen = Screen { width, full: false };
            assert_fits(&table(&all, screen), screen);
        }
    }
}
