//! `kubectl epguard why`: the verdicts of all nodes about an IP. Nodes that agree share an answer.

use super::agents::Fleet;
use super::ask::{self, Answer};
use super::document;
use super::missing::names;
use super::path;
use super::scope::Scope;
use crate::commands::why::{Explanation, Moment, Subject};
use crate::shared::args::service;
use anyhow::{Error, Result, ensure};
use clap::Args;
use serde::Serialize;
use std::net::IpAddr;
use std::process::ExitCode;

/// Options of `kubectl epguard why`.
#[derive(Debug, Args)]
#[command(after_help = "\
Every node may judge packets to an IP, so all are asked; with --client, those on the way of its packets.
Nodes that agree share an answer, with the evidence of the first. Nodes that deny come first.

Examples:
  kubectl epguard why 10.244.1.10
  kubectl epguard why 10.244.1.10:8080 --client 10.244.2.5
  kubectl epguard why 10.244.1.10:8080 --service shop/web --at 5m --node worker-1")]
pub struct WhyArgs {
    /// The endpoint's IP, not the Service's
    #[arg(value_name = "IP[:PORT]", value_parser = subject)]
    pub subject: String,
    /// Only this Service
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = service)]
    pub service: Option<String>,
    /// Ask only the client's node and the endpoint's, where the API shows them
    #[arg(long, value_name = "IP", conflicts_with_all = ["nodes", "selector"])]
    pub client: Option<IpAddr>,
    /// The verdict at that time: RFC 3339, or how long ago (90s, 5m, 1h30m) [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub at: Option<String>,
}

/// Asks and prints. Errors: the cluster cannot be asked.
pub async fn run(scope: &Scope, args: &WhyArgs) -> Result<ExitCode> {
    let mut fleet = Fleet::find(scope).await?;
    // The parser sees only flags on the same side of the verb.
    ensure!(
        args.client.is_none() || scope.is_whole(),
        "--client chooses the nodes: leave out --node and --selector"
    );
    let mut command = vec!["why", &args.subject, "-o", "json"];
    for (flag, value) in [("--service", &args.service), ("--at", &args.at)] {
        command.extend(value.iter().flat_map(|value| [flag, value]));
    }
    let subject: Subject = args.subject.parse().map_err(Error::msg)?;
    let nodes = match args.client {
        Some(client) => path::narrow(&mut fleet, client, subject.ip).await,
        None if scope.is_whole() => "asked all nodes; --client IP asks those on its way".to_owned(),
        None => format!("asked {}", names(&fleet.nodes())),
    };
    let mut asked = ask::ask::<Explanation>(&fleet, &command, scope.patience(ask::PATIENCE)).await;
    for answer in &mut asked.answers {
        let verdicts = &mut answer.value.verdicts;
        verdicts.retain(|verdict| scope.wants(verdict.service.as_deref()));
    }
    let who = Who { asked: nodes };
    document::print(scope.output, &asked, &who, |answers| {
        format!("{}\n\n{}", who.asked, text(answers))
            .trim_end()
            .to_owned()
    })
}

/// Which nodes were asked, and why these.
#[derive(Debug, Serialize)]
struct Who {
    asked: String,
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
        let nodes: Vec<&str> = group.iter().map(|answer| answer.node()).collect();
        format!("{}:\n{}", names(&nodes), group[0].value.text())
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

/// Whether two nodes judge packets in the same way. Times are each node's own.
fn agree(a: &Explanation, b: &Explanation) -> bool {
    (&a.mode, &a.verdicts, &a.passing) == (&b.mode, &b.verdicts, &b.passing)
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
