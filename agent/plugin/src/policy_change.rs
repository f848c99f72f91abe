//! A change of the mode policy.
//!
//! ```text
//! ConfigMap + status of all nodes -> what changes, and where -> question -> ConfigMap -> nodes follow
//! ```

use super::agents::Fleet;
use super::answers::{FleetAnswers, NodeAnswer, group_by_value, name_nodes};
use super::follow::Version;
use super::policy_map::{NewKeys, PolicyMap};
use super::question::ask_user;
use anyhow::{Result, anyhow};
use epguard_client::answers::status::Condition;
use epguard_client::shared::output::{after, complain, print};
use epguard_client::shared::plain::plain;
use epguard_client::shared::status::Status;
use epguard_core::facts::PolicyKey;
use std::fmt::Write as _;

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
    /// Do not ask.
    pub yes: bool,
}

impl PolicyChange<'_> {
    /// Shows the change, asks, writes it, and waits until the nodes follow. `missed` is what a node
    /// that has the new `ConfigMap` still lacks. Returns the exit code.
    ///
    /// Errors: nothing is written, or the output fails.
    pub async fn carry_out(
        &self,
        fleet: &Fleet,
        mut policy: PolicyMap,
        missed: impl Fn(&Status) -> Option<String>,
    ) -> Result<u8> {
        show_plan(&format!("{}\nnow:\n{}", self.plan(&policy), self.now))?;
        if self.is_news(&policy) {
            if let Some(warning) = policy.gitops_warning() {
                complain(&warning);
            }
            ask_user(self.yes)?;
            policy.write(&self.keys).await?;
        } else if policy.version().is_none() {
            return Ok(0);
        }
        let version = Version::new(&policy.name, policy.version())?;
        let following = version.wait_for_nodes(fleet, missed).await;
        print(&following.text())?;
        if let Err(error) = policy.refresh().await {
            complain(&format!("epguard: the change is written; {error:#}"));
            return Ok(NOT_FOLLOWED);
        }
        if let Some(taken_back) = self.taken_back(&policy) {
            complain(&taken_back);
            return Ok(NOT_FOLLOWED);
        }
        let code = if following.is_complete() {
            0
        } else {
            NOT_FOLLOWED
        };
        Ok(code)
    }

    /// True if a key gets another value.
    fn is_news(&self, policy: &PolicyMap) -> bool {
        let mut keys = self.keys.iter();
        keys.any(|(key, value)| policy.value(*key) != value.as_deref())
    }

    /// Each key with its values before and after, and what they are about.
    fn plan(&self, policy: &PolicyMap) -> String {
        let mut changes = Vec::new();
        for (key, value) in &self.keys {
            let from = policy.value(*key);
            let [shown, new] =
                [from, value.as_deref()].map(|value| plain(value.unwrap_or("not set")));
            changes.push(if shown == new {
                format!("{key} is {new} already")
            } else {
                format!("{key}: {shown} -> {new}")
            });
        }
        let mut plan = format!("ConfigMap {}: {}", policy.name, changes.join(", "));
        if !self.about.is_empty() {
            let _ = write!(plan, "\n{}", self.about);
        }
        plan
    }

    /// Who has changed a key since, in a line; none if all are as they were written.
    fn taken_back(&self, policy: &PolicyMap) -> Option<String> {
        for (key, value) in &self.keys {
            let found = policy.value(*key);
            if found != value.as_deref() {
                let name = &policy.name;
                let by = policy.last_writer();
                let by = by.as_deref().unwrap_or("another writer");
                let found = plain(found.unwrap_or("not set"));
                return Some(format!(
                    "epguard: {by} has taken the change back: {key} of ConfigMap {name} is {found} again; \
                     see \"Argo CD and Flux\" in docs/operate.md"
                ));
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

/// Prints what changes. Errors: it is not seen, so it is not carried out, and that is no success.
pub fn show_plan(plan: &str) -> Result<()> {
    print(plan)
        .map_err(|error| anyhow!("nothing is changed: the plan cannot be printed: {error:#}"))
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
    text.truncate(text.trim_end().len());
    text
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
