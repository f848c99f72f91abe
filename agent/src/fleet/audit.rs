//! `kubectl epguard audit`: flows of all nodes that still lead to pods that have ended.

use super::agents::Fleet;
use super::ask::{self, Answer};
use super::document::{self, Nothing};
use super::missing::names;
use super::scope::{Form, Scope};
use crate::commands::audit::{self as local, Report};
use anyhow::Result;
use clap::Args;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::process::ExitCode;

/// Seconds to wait for a node: it reads all of its conntrack table.
const PATIENCE: u64 = 30;

/// Options of `kubectl epguard audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Columns and states: epguard audit --help.

Exit code: 0 nothing stale, 1 something stale, 2 a node did not answer, or could not read its flows.

Examples:
  kubectl epguard audit               each node with findings; the others in one line
  kubectl epguard audit -n shop       what leads to pods of one namespace's Services
  kubectl epguard audit -o wide       each node")]
pub struct AuditArgs {}

/// A report. Findings in words of another version are counted.
#[derive(Debug, Serialize)]
struct Audited(Report);

impl<'de> Deserialize<'de> for Audited {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let document = Value::deserialize(from)?;
        let findings = document["findings"].as_array().map_or(0, Vec::len);
        let mut report: Report = serde_json::from_value(document).map_err(D::Error::custom)?;
        let others = findings.saturating_sub(report.findings.len());
        if others > 0 {
            report.not_looked_at.push(format!(
                "{others} findings in words of another version: use the plugin of its version"
            ));
        }
        Ok(Self(report))
    }
}

/// Asks and prints. Errors: the cluster cannot be asked.
pub async fn run(scope: &Scope, _: &AuditArgs) -> Result<ExitCode> {
    let fleet = Fleet::find(scope).await?;
    let mut asked = ask::ask::<Audited>(&fleet, &["audit", "-o", "json"], scope.patience(PATIENCE)).await;
    for answer in &mut asked.answers {
        // The API names the node for people, and not the answer.
        let report = &mut answer.value.0;
        report.node.clone_from(&answer.agent.node);
        if scope.namespace.is_some() {
            report
                .findings
                .retain(|finding| scope.wants(finding.service.as_deref()));
            answer.code = local::verdict(report);
        }
    }
    let wide = scope.output == Form::Wide;
    document::print(scope.output, &asked, Nothing {}, |answers| text(answers, wide))
}

/// Nodes with findings one after the other, as their own command shows them; the others share a line.
fn text(answers: &[Answer<Audited>], wide: bool) -> String {
    let is_clean = |report: &Report| report.findings.is_empty() && report.not_looked_at.is_empty();
    let is_short = |answer: &&Answer<Audited>| !wide && is_clean(&answer.value.0);
    let (clean, others): (Vec<_>, Vec<_>) = answers.iter().partition(is_short);
    let mut parts: Vec<String> = others.iter().map(|answer| answer.value.0.text()).collect();
    let nodes: Vec<&str> = clean.iter().map(|answer| answer.node()).collect();
    if !nodes.is_empty() {
        parts.push(format!("{}: nothing is stale", names(&nodes)));
    }
    parts.join("\n\n")
}
