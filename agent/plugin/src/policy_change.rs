//! A change of the mode policy.
//!
//! ```text
//! ConfigMap + status of all nodes -> what changes, and where -> question -> ConfigMap -> nodes follow
//! ```

use super::agents::Fleet;
use super::answers::{FleetAnswers, NodeAnswer, group_by_value, name_nodes};
use super::change_report::{ChangeReport, KeyChange, TakenBack};
use super::follow::Version;
use super::policy_map::{NewKeys, PolicyMap};
use super::question::ask_user;
use super::scope::FleetOutput;
use anyhow::{Result, anyhow, ensure};
use epguard_client::answers::status::Condition;
use epguard_client::shared::output::{after, complain, is_read, print};
use epguard_client::shared::plain::plain;
use epguard_client::shared::screen::Screen;
use epguard_client::shared::status::Status;
use epguard_common::Mode;
use epguard_core::facts::PolicyKey;
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Exit code if the change is written, and a node does not follow.
const NOT_FOLLOWED: u8 = 1;

/// New values of keys, and what the user sees before they are written.
pub struct PolicyChange<'a> {
    /// The keys.
    pub keys: NewKeys,
    /// What they are about, in a line; empty if that is clear.
    pub about: &'a str,
    /// What the nodes do now.
    pub now: &'a str,
    /// The new mode of all nodes, if it is that which changes.
    pub mode: Option<Mode>,
    /// Do not ask.
    pub yes: bool,
}

impl PolicyChange<'_> {
    /// Shows the change, asks, writes it, and waits until the nodes follow. `missed` is what a node
    /// that has the new `ConfigMap` still lacks. Returns the exit code.
    ///
    /// Errors: nothing is written, or no answer has come in time, so that it may be.
    pub async fn carry_out(
        &self,
        fleet: &Fleet,
        mut policy: PolicyMap,
        missed: impl Fn(&Status) -> Option<String>,
    ) -> Result<u8> {
        let output = fleet.scope.output;
        let mut report = ChangeReport::new(&policy.name, self.key_changes(&policy));
        let plan = self.plan(&policy.name, &report.keys);
        show_plan(output, &format!("{plan}\nnow:\n{}", self.now))?;
        if report.keys.iter().any(KeyChange::is_news) {
            if let Some(warning) = policy.gitops_warning() {
                complain(&warning);
            }
            ask_user(self.yes)?;
            policy.write(&self.keys).await?;
            report.is_written = true;
        }
        let is_written = report.is_written;
        match self.report_followers(fleet, policy, report, missed).await {
            // A reader that has left before it has seen who follows is no success.
            Err(error) if is_written => {
                complain(&format!("epguard: the change is written; {error:#}"));
                Ok(NOT_FOLLOWED)
            }
            Err(error) => Err(anyhow!("nothing is changed; {error:#}")),
            Ok(code) => Ok(code),
        }
    }

    /// Waits until the nodes follow, and prints the report. Returns the exit code. Errors: the
    /// output fails, or what the nodes have to follow cannot be read.
    async fn report_followers(
        &self,
        fleet: &Fleet,
        mut policy: PolicyMap,
        mut report: ChangeReport,
        missed: impl Fn(&Status) -> Option<String>,
    ) -> Result<u8> {
        let output = fleet.scope.output;
        if !report.is_written && policy.version().is_none() {
            report.print_document(output)?;
            return Ok(0);
        }
        let version = Version::new(&report.config_map, policy.version())?;
        let following = version.wait_for_nodes(fleet, missed).await;
        report.take(following, self.mode);
        if output.is_for_people() {
            print(&report.text())?;
        }
        let refreshed = policy.refresh().await;
        if refreshed.is_ok() {
            report.taken_back = self.taken_back(&policy);
        }
        report.print_document(output)?;
        refreshed?;
        if let Some(taken_back) = &report.taken_back {
            complain(&taken_back.text(&report.config_map));
            return Ok(NOT_FOLLOWED);
        }
        Ok(if report.is_complete() {
            0
        } else {
            NOT_FOLLOWED
        })
    }

    /// Each key with its values before and after.
    fn key_changes(&self, policy: &PolicyMap) -> Vec<KeyChange> {
        let mut changes = Vec::new();
        for (key, value) in &self.keys {
            changes.push(KeyChange {
                key: key.to_string(),
                before: policy.value(*key).map(str::to_owned),
                after: value.clone(),
            });
        }
        changes
    }

    /// The changes, and what they are about.
    fn plan(&self, config_map: &str, changes: &[KeyChange]) -> String {
        let changes: Vec<String> = changes.iter().map(KeyChange::text).collect();
        let mut plan = format!("ConfigMap {config_map}: {}", changes.join(", "));
        if !self.about.is_empty() {
            let _ = write!(plan, "\n{}", self.about);
        }
        plan
    }

    /// Who has changed a key since; none if all are as they were written.
    fn taken_back(&self, policy: &PolicyMap) -> Option<TakenBack> {
        for (key, value) in &self.keys {
            let found = policy.value(*key);
            if found != value.as_deref() {
                return Some(TakenBack {
                    key: key.to_string(),
                    found: found.map(str::to_owned),
                    by: policy.last_writer(),
                });
            }
        }
        None
    }
}

/// A line for each of these keys that has a value, stays, and counts before what changes.
pub fn stays(policy: &PolicyMap, keys: &NewKeys, stronger: &[PolicyKey]) -> Vec<String> {
    let mut lines = Vec::new();
    for key in stronger {
        if let Some(value) = policy.value(*key)
            && !keys.contains_key(key)
        {
            let value = plain(value);
            lines.push(format!("{key}: {value} stays, and counts before it"));
        }
    }
    lines
}

/// Prints what changes, beside a document on standard error. Errors: the plan is not seen, or nobody
/// reads the document, so it is not carried out, and that is no success.
pub fn show_plan(output: FleetOutput, plan: &str) -> Result<()> {
    if !output.is_for_people() {
        ensure!(
            is_read(),
            "nothing is changed: standard output has no reader, so nobody would see who follows"
        );
        plan.lines().for_each(complain);
        return Ok(());
    }
    print(plan)
        .map_err(|error| anyhow!("nothing is changed: the plan cannot be printed: {error:#}"))
}

/// Prints what the nodes do now, and the keys that they follow; none where nodes are chosen. Returns
/// the exit code. Errors: the output fails.
pub fn show_nodes(
    output: FleetOutput,
    asked: &FleetAnswers<Condition>,
    policy: Option<&PolicyMap>,
    counts: &str,
) -> Result<ExitCode> {
    let keys = policy.map_or_else(String::new, |policy| format!("{}\n", policy.keys_text()));
    let document = asked.document(policy.map_or(Value::Null, PolicyMap::document));
    let for_people = |_: &Value| format!("{keys}{counts}");
    print(&output.of_documents().text(&document, for_people)?)?;
    if let Some(warning) = policy.and_then(PolicyMap::gitops_warning) {
        complain(&warning);
    }
    Ok(asked.unanswered().into())
}

/// `2 in enforce (by mode policy): a, b`, a line for each text that `describe` makes of a status,
/// and the nodes that did not answer. Nodes where this `ConfigMap` is not in force have lines of
/// their own: `describe` gets the cause.
pub fn count_nodes(
    asked: &FleetAnswers<Condition>,
    policy: Option<&PolicyMap>,
    describe: impl Fn(&Status, &str) -> String,
) -> String {
    let texts = asked.answers.iter().map(|answer| {
        let text = describe(&answer.known.status, &what_keeps(answer, policy));
        (text, answer.node())
    });
    let mut text = String::new();
    for (what, nodes) in group_by_value(texts) {
        let _ = writeln!(text, "{} in {what}: {}", nodes.len(), name_nodes(&nodes));
    }
    text.push_str(&asked.absent());
    Screen::of_output(false).fold(text.trim_end())
}

/// What keeps this `ConfigMap` from being in force on a node; empty if nothing does.
fn what_keeps(answer: &NodeAnswer<Condition>, policy: Option<&PolicyMap>) -> String {
    let watched = answer.agent.mode_policy.as_deref().unwrap_or("none");
    let other = match policy {
        Some(policy) if policy.name != watched => format!(", ConfigMap {watched}"),
        _ => String::new(),
    };
    let problem = answer.known.status.mode_policy.as_deref().map(plain);
    format!("{other}{}", after("; ", problem))
}
