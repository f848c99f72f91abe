//! `kubectl epguard action`: the actions of all nodes by the mode policy, or the action of chosen
//! nodes until it changes.

use super::agents::Fleet;
use super::answers::{FleetAnswers, NodeAnswer, name_nodes};
use super::ask::{PATIENCE, ask_nodes, command_line};
use super::mode::CANARIES;
use super::policy_change::{PolicyChange, count_nodes, show_nodes, stays};
use super::policy_map::{NewKeys, PolicyMap};
use super::switch::switch_nodes;
use anyhow::{Result, bail, ensure};
use clap::{ArgGroup, Args};
use epguard_client::answers::status::Condition;
use epguard_client::shared::args::one_of;
use epguard_client::shared::choice::{self, Choice, choice};
use epguard_client::shared::output::after;
use epguard_common::Reason;
use epguard_core::facts::PolicyKey;
use std::process::ExitCode;

/// Options of `kubectl epguard action`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").args(["actions", "unset"])), after_help = "\
Without --node and --selector the actions are those of the cluster: keys of the ConfigMap that all \
agents watch (--mode-policy). The command waits until each agent follows. With --node or --selector \
the agents there are switched until they restart, or until the actions of the ConfigMap change. A \
Service's own action, by its annotation epguard.io/action, is before all of these.

Without --timeout it waits 5 s for each node, also until it follows, and 30 s for each answer of \
the API server.

Exit code: as of kubectl epguard mode.

Examples:
  kubectl epguard action                           keys, and nodes' actions
  kubectl epguard action reject                    reasons without a key
  kubectl epguard action reject terminated=drop    the same, but one reason
  kubectl epguard action drop --canary             nodes labelled as canaries
  kubectl epguard action --unset                   the agents' flags count
  kubectl epguard action reject --node worker-1")]
pub struct FleetActionArgs {
    #[arg(value_name = "ACTION|REASON=ACTION", value_parser = choice, help = help())]
    pub actions: Vec<Choice>,
    /// Only this reason, with an action or --unset
    #[arg(long, requires = "change", value_parser = one_of(Reason::TO_DENY, Reason::as_str, Reason::help))]
    pub reason: Option<Reason>,
    /// Only nodes with the label epguard.io/canary=true
    #[arg(long, requires = "change", conflicts_with = "reason")]
    pub canary: bool,
    /// Remove the action, so that the agents' flags hold again
    #[arg(long)]
    pub unset: bool,
    /// Do not ask before the change
    #[arg(short, long)]
    pub yes: bool,
}

fn help() -> String {
    format!(
        "The new action [default: show the actions]. {}",
        choice::help()
    )
}

/// Shows or changes. Errors: the `ConfigMap` cannot be read, the change is refused, or the answer
/// was not yes.
pub async fn run(fleet: &Fleet, args: &FleetActionArgs) -> Result<ExitCode> {
    let keys = keys(args)?;
    let is_whole = fleet.scope.is_whole();
    if !args.actions.is_empty() && !is_whole {
        return switch(fleet, args).await;
    }
    let policy = if is_whole {
        Some(PolicyMap::fetch(fleet).await?)
    } else {
        None
    };
    let asked: FleetAnswers<Condition> = ask_nodes(fleet, &["status"], PATIENCE).await;
    let counts = count_nodes(&asked, policy.as_ref(), |status, more| {
        format!("{}{more}", status.actions_text())
    });
    let output = fleet.scope.output;
    let Some(policy) = policy else {
        return show_nodes(output, &asked, None, &counts);
    };
    if keys.is_empty() {
        return show_nodes(output, &asked, Some(&policy), &counts);
    }
    require_new_agents(&asked)?;
    let about = about(args, &keys, &policy);
    let change = PolicyChange {
        keys,
        about: &about,
        now: &counts,
        mode: None,
        yes: args.yes,
    };
    let code = change.carry_out(fleet, policy, |_| None).await?;
    Ok(code.into())
}

/// Runs `epguard action` on each chosen node. Errors: the answer was not yes, or there is more than
/// one action.
async fn switch(fleet: &Fleet, args: &FleetActionArgs) -> Result<ExitCode> {
    let [chosen] = args.actions[..] else {
        bail!("nothing is changed: with --node or --selector, name one action at a time");
    };
    let reason = chosen.reason.or(args.reason);
    let what = format!("{}{}", chosen.action, after(" for ", reason));
    let until = ", until the agent restarts or the actions of the ConfigMap change";
    let command = command_line(
        &["action", chosen.action.as_str()],
        &[("--reason", reason.map(Reason::as_str))],
    );
    switch_nodes(fleet, &what, until, &command, args.yes).await
}

/// The keys that the arguments mean; none without a change. Errors: they contradict each other.
fn keys(args: &FleetActionArgs) -> Result<NewKeys> {
    let mut keys = NewKeys::new();
    if args.unset {
        keys.insert(policy_key(args.canary, args.reason), None);
    }
    for chosen in &args.actions {
        if let (Some(reason), Some(other)) = (args.reason, chosen.reason)
            && reason != other
        {
            bail!("--reason {reason} contradicts {other}=...: name the reason once");
        }
        let reason = chosen.reason.or(args.reason);
        if let Some(reason) = reason
            && args.canary
        {
            bail!("--canary is about all reasons: leave out {reason}=");
        }
        let key = policy_key(args.canary, reason);
        let before = keys.insert(key, Some(chosen.action.to_string()));
        ensure!(before.is_none(), "{key} is given twice: name one action");
    }
    Ok(keys)
}

fn policy_key(is_canary: bool, reason: Option<Reason>) -> PolicyKey {
    match reason {
        _ if is_canary => PolicyKey::CanaryAction,
        None => PolicyKey::Action,
        Some(reason) => PolicyKey::ReasonAction(reason),
    }
}

/// What the change is about, and which keys are before it.
fn about(args: &FleetActionArgs, keys: &NewKeys, policy: &PolicyMap) -> String {
    let mut lines = Vec::new();
    if args.canary {
        lines.push(CANARIES.to_owned());
    }
    if !args.unset && (keys.contains_key(&PolicyKey::Action) || args.canary) {
        let mut stronger: Vec<PolicyKey> = Reason::TO_DENY.map(PolicyKey::ReasonAction).to_vec();
        if !args.canary {
            stronger.push(PolicyKey::CanaryAction);
        }
        lines.extend(stays(policy, keys, &stronger));
    }
    lines.join("\n")
}

/// Errors: an agent is older than the actions of the mode policy: for it such a key is an error.
fn require_new_agents(asked: &FleetAnswers<Condition>) -> Result<()> {
    let answers = asked.answers.iter();
    let older = answers.filter(|answer| answer.known.status.actions.is_empty());
    let older: Vec<&str> = older.map(NodeAnswer::node).collect();
    ensure!(
        older.is_empty(),
        "nothing is changed: the agents of {} do not read actions from the ConfigMap: upgrade them, or pass --node",
        name_nodes(&older)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_client::shared::args::parsed;

    fn written(words: &[&str]) -> Result<Vec<(String, Option<String>)>, String> {
        let args: FleetActionArgs = parsed(words)?;
        let keys = keys(&args).map_err(|error| error.to_string())?;
        let keys = keys.into_iter();
        Ok(keys.map(|(key, value)| (key.to_string(), value)).collect())
    }

    #[test]
    fn each_action_is_a_key_of_the_config_map() {
        let set = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
        let none = |key: &str| (key.to_owned(), None);
        assert_eq!(written(&[]), Ok(vec![]));
        let both = [set("action", "reject"), set("terminated-action", "drop")];
        assert_eq!(written(&["reject", "terminated=drop"]), Ok(both.to_vec()));
        let one = vec![set("reused-action", "drop")];
        assert_eq!(written(&["drop", "--reason", "reused"]), Ok(one));
        let canary = vec![set("canary-action", "reject")];
        assert_eq!(written(&["reject", "--canary"]), Ok(canary));
        assert_eq!(written(&["--unset"]), Ok(vec![none("action")]));
        let of_reason = vec![none("reused-action")];
        assert_eq!(written(&["--unset", "--reason", "reused"]), Ok(of_reason));
    }

    #[test]
    fn arguments_that_contradict_each_other_are_refused() {
        for (words, error) in [
            (&["reject", "drop"][..], "action is given twice"),
            (
                &["reused=reject", "--canary"],
                "--canary is about all reasons",
            ),
            (
                &["reused=reject", "--reason", "terminated"],
                "--reason terminated contradicts reused=",
            ),
            (&["reject", "--unset"], "cannot be used with"),
            (&["redirect"], "not an action"),
            (&["--canary"], "required"),
        ] {
            let refused = written(words).unwrap_err();
            assert!(refused.contains(error), "{words:?}: {refused}");
        }
    }
}
