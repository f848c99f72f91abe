//! `kubectl epguard why`: the verdicts of all nodes about an IP. Nodes that agree share an answer.

use super::agents::Fleet;
use super::ask::{self, Answer};
use super::document::{self, Nothing};
use super::missing::names;
use super::scope::Scope;
use crate::commands::why::{Explanation, Moment, Subject};
use crate::shared::args::service;
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

/// Seconds to wait for a node.
const PATIENCE: u64 = 5;

/// Options of `kubectl epguard why`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nodes that agree share an answer, with the evidence of the first. Nodes that deny come first.

Examples:
  kubectl epguard why 10.244.1.10
  kubectl epguard why 10.244.1.10:8080 --service shop/web --at 5m --node worker-1")]
pub struct WhyArgs {
    /// The endpoint's IP, not the Service's
    #[arg(value_name = "IP[:PORT]", value_parser = subject)]
    pub subject: String,
    /// Only this Service
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = service)]
    pub service: Option<String>,
    /// The verdict at that time: RFC 3339, or how long ago (90s, 5m, 1h30m) [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub at: Option<String>,
}

/// Asks and prints. Errors: the cluster cannot be asked.
pub async fn run(scope: &Scope, args: &WhyArgs) -> Result<ExitCode> {
    let fleet = Fleet::find(scope).await?;
    let mut command = vec!["why", &args.subject, "-o", "json"];
    for (flag, value) in [("--service", &args.service), ("--at", &args.at)] {
        command.extend(value.iter().flat_map(|value| [flag, value]));
    }
    let asked = ask::ask::<Explanation>(&fleet, &command, scope.patience(PATIENCE)).await;
    document::print(scope.output, &asked, Nothing {}, text)?;
    Ok(asked.code().into())
}

fn text(answers: &[Answer<Explanation>]) -> String {
    let mut groups: Vec<Vec<&Answer<Explanation>>> = Vec::new();
    for answer in answers {
        match groups
            .iter_mut()
            .find(|group| agree(&group[0].value, &answer.value))
        {
            Some(group) => group.push(answer),
            None => groups.push(vec![answer]),
        }
    }
    groups.sort_by_key(|group| severity(&group[0].value));
    let parts = groups.iter().map(|group| {
        let nodes: Vec<&str> = group.iter().map(|answer| answer.agent.node.as_str()).collect();
        format!("{}:\n{}", names(&nodes), group[0].value.text())
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

/// Whether two nodes judge packets in the same way. Times are each node's own.
fn agree(a: &Explanation, b: &Explanation) -> bool {
    (&a.mode, &a.verdicts) == (&b.mode, &b.verdicts)
}

fn severity(explanation: &Explanation) -> usize {
    let verdicts = || explanation.verdicts.iter();
    let first = ["deny", "hold"]
        .iter()
        .position(|verdict| verdicts().any(|one| one.verdict == *verdict));
    first.unwrap_or(usize::MAX)
}

/// Errors: neither an IP nor `IP:PORT`.
fn subject(text: &str) -> Result<String, String> {
    text.parse::<Subject>().map(|_| text.to_owned())
}

/// Errors: no time.
fn moment(text: &str) -> Result<String, String> {
    let moment = text.parse::<Moment>().map_err(str::to_owned);
    moment.map(|_| text.to_owned())
}
