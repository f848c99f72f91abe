//! `kubectl epguard breaker`: pending denials of all nodes, and their confirmation by hand.

use super::agents::Fleet;
use super::ask::{self, Answer};
use super::document::{self, Nothing};
use super::missing::names;
use super::scope::Scope;
use super::{mode, output};
use crate::commands::breaker as local;
use crate::shared::status::PendingDenials;
use anyhow::{Result, ensure};
use clap::Args;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Options of `kubectl epguard breaker`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl epguard breaker                       which Services have denials that wait, on which nodes
  kubectl epguard breaker -n shop               those of one namespace
  kubectl epguard breaker --release shop/web    carry them out on all nodes; without a name, those of all Services (it asks)")]
pub struct BreakerArgs {
    /// Enforce the pending denials of a Service, or of all, without a second list
    #[arg(long, value_name = "NAMESPACE/NAME", num_args = 0..=1, default_missing_value = "", value_parser = local::service)]
    pub release: Option<String>,
    /// Do not ask before the denials of all Services are confirmed
    #[arg(short, long)]
    pub yes: bool,
}

/// Asks and prints. Errors: the cluster cannot be asked.
pub async fn run(scope: &Scope, args: &BreakerArgs) -> Result<ExitCode> {
    ensure!(
        args.release.is_none() || scope.namespace.is_none(),
        "nothing is changed: --release names a Service, NAMESPACE/NAME, or means all; leave out --namespace"
    );
    let fleet = Fleet::find(scope).await?;
    let mut command = vec!["breaker", "-o", "json"];
    match args.release.as_deref() {
        Some("") => {
            output::line("all Services: their pending denials are carried out without a second list")
                .map_err(|error| mode::unseen(&error))?;
            mode::confirm(args.yes)?;
            command.push("--release");
        }
        Some(service) => command.extend(["--release", service]),
        None => {}
    }
    let mut asked = ask::ask::<Vec<PendingDenials>>(&fleet, &command, scope.patience(ask::PATIENCE)).await;
    for answer in &mut asked.answers {
        answer.value.retain(|held| scope.wants(Some(&held.service)));
    }
    document::print(scope.output, &asked, Nothing {}, |answers| {
        if answers.is_empty() {
            return String::new();
        }
        let (held, nodes) = merged(answers);
        local::table(&held, Some(&nodes))
    })
}

/// One row for each Service and cause, with the most of any node.
fn merged(answers: &[Answer<Vec<PendingDenials>>]) -> (Vec<PendingDenials>, Vec<String>) {
    let mut services: BTreeMap<(&str, String), (PendingDenials, Vec<&str>)> = BTreeMap::new();
    for Answer { agent, value, .. } in answers {
        for held in value {
            let key = (held.service.as_str(), held.why.to_string());
            let (most, nodes) = services.entry(key).or_insert_with(|| (held.clone(), Vec::new()));
            most.held = most.held.max(held.held);
            most.ready_recently = most.ready_recently.max(held.ready_recently);
            most.since_ms = most.since_ms.max(held.since_ms);
            nodes.push(&agent.node);
        }
    }
    let rows = services.into_values().map(|(held, nodes)| (held, names(&nodes)));
    rows.unzip()
}
