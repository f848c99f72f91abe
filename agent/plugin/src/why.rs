//! `kubectl epguard why`: the verdicts of all nodes about an IP. Nodes that agree share an answer.

use super::agents::{Fleet, list_objects};
use super::answers::{FleetAnswers, NodeAnswer, group_by_value, name_nodes};
use super::ask::{PATIENCE, ask_nodes, command_line};
use anyhow::{Context as _, Error, Result};
use clap::Args;
use epguard_client::answers::why::{Explanation, WhyMoment, WhySubject, WhyVerdict};
use epguard_client::shared::args::ServiceArgs;
use epguard_client::shared::output::after;
use epguard_client::shared::screen::Screen;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::json;
use std::net::IpAddr;
use std::process::ExitCode;

/// Options of `kubectl epguard why`.
#[derive(Debug, Args)]
#[command(after_help = "\
Every node may judge packets to an IP, so all are asked; with --client, those on the way of its \
packets. Nodes that agree share an answer, with the evidence of the first. Nodes that deny come \
first.

Without --timeout it waits 5 s for each node, and 30 s for each answer of the API \
server.

Examples:
  kubectl epguard why 10.244.1.10
  kubectl epguard why 10.244.1.10:8080 --client 10.244.2.5
  kubectl epguard why 10.244.1.10:8080 --service shop/web --at 5m")]
pub struct FleetWhyArgs {
    /// The endpoint's IP, not the Service's
    #[arg(value_name = "IP[:PORT]", value_parser = text_of::<WhySubject>)]
    pub subject: String,
    /// Which Services.
    #[command(flatten)]
    pub services: ServiceArgs,
    /// Ask only the client's node and the endpoint's, as far as an agent knows them
    #[arg(long, value_name = "IP")]
    pub client: Option<IpAddr>,
    /// The verdict at that time: RFC 3339, or how long ago (90s, 5m, 1h30m) [default: now]
    #[arg(long, value_name = "TIME", value_parser = text_of::<WhyMoment>)]
    pub at: Option<String>,
}

/// Asks and prints. Errors: the output fails.
pub async fn run(mut fleet: Fleet, args: &FleetWhyArgs) -> Result<ExitCode> {
    let flags = [&args.services.flags()[..], &[("--at", args.at.as_deref())]].concat();
    let command = command_line(&["why", &args.subject], &flags);
    let subject: WhySubject = args.subject.parse().map_err(Error::msg)?;
    let nodes = match args.client {
        Some(client) => choose_nodes_on_the_way(&mut fleet, client, subject.ip)
            .await
            .unwrap_or_else(|why| format!("asked all nodes: {why:#}")),
        None if fleet.scope.is_whole() => {
            "asked all nodes; --client IP asks those on its way".to_owned()
        }
        None => format!("asked {}", name_nodes(&fleet.node_names())),
    };
    let asked = ask_nodes(&fleet, &command, PATIENCE).await;
    asked.print(fleet.scope.output, json!({"asked": nodes}), |answers| {
        let screen = fleet.scope.screen();
        let text = format!(
            "{}\n\n{}",
            screen.fold(&nodes),
            grouped_text(answers, screen)
        );
        text.trim_end().to_owned()
    })
}

/// Leaves only the nodes on the way of a packet, and names them. Where the client's is not known,
/// all nodes stay. Errors: no agent answers, or Nodes may not be listed.
async fn choose_nodes_on_the_way(
    fleet: &mut Fleet,
    client: IpAddr,
    endpoint: IpAddr,
) -> Result<String> {
    let from = node_of_ip(fleet, client).await?;
    let to = node_of_ip(fleet, endpoint).await?;
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
async fn node_of_ip(fleet: &Fleet, ip: IpAddr) -> Result<Option<String>> {
    let mut first = fleet.clone();
    first.choose(
        fleet
            .agents
            .iter()
            .take(1)
            .map(|agent| agent.node.clone())
            .collect(),
    );
    let asked: FleetAnswers<Explanation> =
        ask_nodes(&first, &["why", &ip.to_string()], PATIENCE).await;
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
    let nodes: Vec<Node> = list_objects(
        Api::all(fleet.client.clone()),
        ListParams::default(),
        &fleet.scope,
    )
    .await?;
    let node = nodes.iter().find(|node| has_address(node, ip));
    Ok(node.map(Node::name_any))
}

fn has_address(node: &Node, ip: IpAddr) -> bool {
    let addresses = node
        .status
        .as_ref()
        .and_then(|status| status.addresses.as_ref());
    addresses
        .into_iter()
        .flatten()
        .any(|address| address.address.parse() == Ok(ip))
}

/// What nodes agree on if they judge packets in the same way: times are each node's own.
#[derive(PartialEq)]
struct Judged<'a> {
    mode: &'a str,
    verdicts: &'a [WhyVerdict],
    passing: &'a [String],
}

impl<'a> Judged<'a> {
    fn by(explanation: &'a Explanation) -> Self {
        Self {
            mode: &explanation.mode,
            verdicts: &explanation.verdicts,
            passing: &explanation.passing,
        }
    }

    /// Nodes that deny come first, then those where a denial waits.
    fn rank(&self) -> u8 {
        let ranks = self.verdicts.iter().map(WhyVerdict::rank);
        ranks.min().unwrap_or(u8::MAX)
    }
}

/// The answer of each group of nodes that agree: the text of its first node.
fn grouped_text(answers: &[NodeAnswer<Explanation>], screen: Screen) -> String {
    let judged = answers
        .iter()
        .map(|answer| (Judged::by(&answer.known), answer.node()));
    let mut groups = group_by_value(judged);
    groups.sort_by_key(|(judged, _)| judged.rank());
    let mut parts = Vec::new();
    for (_, nodes) in &groups {
        let first = answers
            .iter()
            .find(|answer| nodes.first() == Some(&answer.node()));
        let text = after("\n", first.map(|answer| answer.known.to_text(screen)));
        let names = screen.fold(&format!("{}:", name_nodes(nodes)));
        parts.push(format!("{names}{text}"));
    }
    parts.join("\n\n")
}

/// The text, which the agent's own verb parses again. Errors: it would refuse it.
fn text_of<T: std::str::FromStr<Err: ToString>>(text: &str) -> Result<String, String> {
    let parsed = text.parse::<T>().map_err(|error| error.to_string());
    parsed.map(|_| text.to_owned())
}
