//! `kubectl epguard mode`: the modes of all nodes by the mode policy, or the mode of chosen nodes
//! until it changes.

use super::agents::Fleet;
use super::answers::FleetAnswers;
use super::ask::{PATIENCE, ask_nodes, command_line};
use super::policy_change::{PolicyChange, count_nodes, show_nodes, stays};
use super::policy_map::{NewKeys, PolicyMap};
use super::switch::switch_nodes;
use anyhow::Result;
use clap::{ArgGroup, Args};
use epguard_client::answers::status::Condition;
use epguard_client::shared::args::one_of;
use epguard_client::shared::output::after;
use epguard_common::{Mode, Reason};
use epguard_core::facts::PolicyKey;
use std::process::ExitCode;

/// Options of `kubectl epguard mode`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").args(["mode", "unset"])), after_help = "\
Without --node and --selector the mode is that of the cluster: a key of the ConfigMap that all \
agents watch (--mode-policy). The command waits until each agent follows, and a new agent has the \
mode, too. With --node or --selector the agents there are switched until they restart, or until the \
ConfigMap changes.

Without --timeout it waits 5 s for each node, also until it follows, and 30 s for each answer of \
the API server.

Exit code: 0 the mode is shown, or every node follows; 1 it is written, and a node does not follow; \
2 a node did not answer, or nothing is changed.

Examples:
  kubectl epguard mode                      the keys, and the nodes' modes
  kubectl epguard mode enforce --canary     nodes with epguard.io/canary=true
  kubectl epguard mode enforce              all nodes
  kubectl epguard mode observe --reason terminated
  kubectl epguard mode --unset --reason terminated
  kubectl epguard mode observe --node worker-1")]
pub struct FleetModeArgs {
    /// The new mode [default: show the modes]
    #[arg(value_parser = one_of(Mode::ALL, Mode::as_str, Mode::help))]
    pub mode: Option<Mode>,
    /// Only this reason, with a mode or --unset
    #[arg(long, requires = "change", value_parser = one_of(Reason::TO_DENY, Reason::as_str, Reason::help))]
    pub reason: Option<Reason>,
    /// Only nodes with the label epguard.io/canary=true
    #[arg(long, requires = "change", conflicts_with = "reason")]
    pub canary: bool,
    /// Remove the mode, so that the agents' flags hold again
    #[arg(long)]
    pub unset: bool,
    /// Do not ask before the change
    #[arg(short, long)]
    pub yes: bool,
}

/// Shows or changes. Errors: the `ConfigMap` cannot be read, the change is refused, or the answer
/// was not yes.
pub async fn run(fleet: &Fleet, args: &FleetModeArgs) -> Result<ExitCode> {
    let is_whole = fleet.scope.is_whole();
    if let Some(mode) = args.mode
        && !is_whole
    {
        let what = format!("{mode}{}", after(" for ", args.reason));
        let until = ", until the agent restarts or the ConfigMap changes";
        let command = command_line(
            &["mode", mode.as_str()],
            &[("--reason", args.reason.map(Reason::as_str))],
        );
        return switch_nodes(fleet, &what, until, &command, args.yes).await;
    }
    let policy = if is_whole {
        Some(PolicyMap::fetch(fleet).await?)
    } else {
        None
    };
    let asked: FleetAnswers<Condition> = ask_nodes(fleet, &["status"], PATIENCE).await;
    let counts = count_nodes(&asked, policy.as_ref(), |status, more| {
        format!("{} (by {}{more})", status.mode_name(), status.mode_source)
    });
    let output = fleet.scope.output;
    let Some(policy) = policy else {
        return show_nodes(output, &asked, None, &counts);
    };
    if args.mode.is_none() && !args.unset {
        return show_nodes(output, &asked, Some(&policy), &counts);
    }
    let keys = [(policy_key(args), args.mode.map(|mode| mode.to_string()))].into();
    let about = about(args, &keys, &policy);
    let change = PolicyChange {
        keys,
        about: &about,
        now: &counts,
        mode: if args.canary || args.reason.is_some() {
            None
        } else {
            args.mode
        },
        yes: args.yes,
    };
    let code = change.carry_out(fleet, policy, |_| None).await?;
    Ok(code.into())
}

/// The nodes that `--canary` is about.
pub const CANARIES: &str = "for each node with the label epguard.io/canary=true";

/// What the change is about. A new mode of all nodes is not that of canaries if these have one.
fn about(args: &FleetModeArgs, keys: &NewKeys, policy: &PolicyMap) -> String {
    if args.canary {
        CANARIES.to_owned()
    } else if args.reason.is_none() {
        stays(policy, keys, &[PolicyKey::CanaryMode]).join("\n")
    } else {
        String::new()
    }
}

/// The key of the `ConfigMap` that the flags mean.
fn policy_key(args: &FleetModeArgs) -> PolicyKey {
    if args.canary {
        PolicyKey::CanaryMode
    } else {
        args.reason.map_or(PolicyKey::Mode, PolicyKey::ReasonMode)
    }
}
