//! `kubectl epguard why`: the verdicts of all nodes about an IP. Nodes that agree share an answer.

use super::agents::{Fleet, all};
use super::ask::{self, Answer, Asked, command, grouped, names};
use crate::commands::why::{Explanation, Moment, Subject};
use crate::shared::args::ServiceArgs;
use crate::shared::output::after;
use anyhow::{Context as _, Error, Result};
use clap::Args;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::json;
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
    #[arg(value_name = "IP[:PORT]", value_parser = is_a::<Subject>)]
    pub subject: String,
    /// Which Services.
    #[command(flatten)]
    pub services: ServiceArgs,
    /// Ask only the client's node and the endpoint's, as far as an agent knows them
    #[arg(long, value_name = "IP")]
    pub client: Option<IpAddr>,
    /// The verdict at that time: RFC 3339, or how long ago (90s, 5m, 1h30m) [default: now]
    #[arg(long, value_name = "TIME", value_parser = is_a::<Moment>)]
    pub at: Option<String>,
}

/// Asks and prints. Errors: the output fails.
pub async fn run(mut fleet: Fleet, args: &WhyArgs) -> Result<ExitCode> {
    let flags = [&args.services.flags()[..], &[("--at", args.at.as_deref())]].concat();
    let command = command(&["why", &args.subject], &flags);
    let subject: Subject = args.subject.parse().map_err(Error::msg)?;
    let nodes = match args.client {
        Some(client) => narrow(&mut fleet, client, subject.ip)
            .await
            .unwrap_or_else(|why| format!("asked all nodes: {why:#}")),
        None if fleet.scope.is_whole() => {
            "asked all nodes; --client IP asks those on its way".to_owned()
        }
        None => format!("asked {}", names(&fleet.names())),
    };
    let asked = ask::ask(&fleet, &command, ask::PATIENCE).await;
    asked.print(fleet.scope.output, json!({"asked": nodes}), |answers| {
        format!("{nodes}\n\n{}", text(answers))
            .trim_end()
            .to_owned()
    })
}

/// Leaves only the nodes on the way of a packet, and names them. Where the client's is not known,
/// all nodes stay. Errors: no agent answers, or Nodes may not be listed.
async fn narrow(fleet: &mut Fleet, client: IpAddr, endpoint: IpAddr) -> Result<String> {
    let (from, to) = (node(fleet, client).await?, node(fleet, endpoint).await?);
    let Some(from) = from else {
        return Ok(format!("asked all nodes: no pod and no node has {client}"));
    };
    let end = match &to {
        Some(to) => format!(", and {to}, where {endpoint} is"),
        None => format!("; no pod has {endpoint}"),
    };
    let words = format!("asked {from}, where {client} is{end}");
    fleet.choose(to.into_iter().chain([from]).collect());
    Ok(words)
}

/// The node of the pod that shows this IP, on any of its networks, as an agent knows it; or the
/// node with the IP.
async fn node(fleet: &Fleet, ip: IpAddr) -> Result<Option<String>> {
    let mut first = fleet.clone();
    first.choose(
        fleet
            .agents
            .iter()
            .take(1)
            .map(|agent| agent.node.clone())
            .collect(),
    );
    let asked: Asked<Explanation> =
        ask::ask(&first, &["why", &ip.to_string()], ask::PATIENCE).await;
    let answer = asked.answers.first().with_context(|| asked.absent())?;
    let owner = answer
        .known
        .owners
        .iter()
        .rev()
        .find(|owner| owner.to.is_none());
    if let Some(node) = owner.and_then(|owner| owner.node.clone()) {
        return Ok(Some(node));
    }
    let nodes: Vec<Node> = all(
        Api::all(fleet.client.clone()),
        ListParams::default(),
        fleet.scope.output,
    )
    .await?;
    let has = |node: &&Node| {
        let addresses = node
            .status
            .iter()
            .flat_map(|status| status.addresses.iter().flatten());
        addresses
            .into_iter()
            .any(|one| one.address.parse() == Ok(ip))
    };
    Ok(nodes.iter().find(has).map(Node::name_any))
}

/// Nodes agree if they judge packets in the same way: times are each node's own.
fn text(answers: &[Answer<Explanation>]) -> String {
    let judged = |of: &Explanation| (of.mode.clone(), of.verdicts.clone(), of.passing.clone());
    let mut groups = grouped(
        answers
            .iter()
            .map(|answer| (judged(&answer.known), answer.node())),
    );
    groups.sort_by_key(|((_, verdicts, _), _)| {
        let has = |what: &&str| verdicts.iter().any(|one| one.verdict == *what);
        ["deny", "stopped"]
            .iter()
            .position(has)
            .unwrap_or(usize::MAX)
    });
    let parts = groups.iter().map(|(_, nodes)| {
        let first = answers
            .iter()
            .find(|answer| nodes.first() == Some(&answer.node()));
        format!(
            "{}:{}",
            names(nodes),
            after("\n", first.map(|answer| answer.known.text()))
        )
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

/// The text, which the agent's own verb parses again. Errors: it would refuse it.
fn is_a<T: std::str::FromStr<Err: ToString>>(text: &str) -> Result<String, String> {
    let parsed = text.parse::<T>().map_err(|error| error.to_string());
    parsed.map(|_| text.to_owned())
}
