//! `kubectl epguard mode`: the modes of all nodes by the `ConfigMap` that the agents watch, or the mode of chosen nodes
//! until it changes.
//!
//! ```text
//! ConfigMap + status of all nodes -> plan (pure): what changes, and where -> question -> ConfigMap
//! ```

mod chosen;
mod plan;
mod policy;

use super::agents::Fleet;
use super::ask::{Asked, UNKNOWN};
use super::nodes::Nodes;
use super::output;
use super::scope::Scope;
use super::status;
use crate::commands::status::Condition;
use crate::shared::args::one_of;
use anyhow::{Context as _, Error, Result, anyhow, bail, ensure};
use clap::Args;
use epguard_common::{Mode, Reason};
use plan::Plan;
use policy::{Key, Policy};
use std::io::{IsTerminal as _, Write as _, stderr, stdin};
use std::process::ExitCode;

/// Options of `kubectl epguard mode`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --node and --selector the mode is that of the cluster: a key of the ConfigMap that all agents watch
(--fleet-config). Each agent follows within milliseconds, and a new agent has it, too. With --node or --selector the agents
there are switched until they restart, or until the ConfigMap changes.

Examples:
  kubectl epguard mode                               the ConfigMap's modes, and how many nodes have each
  kubectl epguard mode enforce --canary              nodes with the label epguard.io/canary=true
  kubectl epguard mode enforce                       all nodes
  kubectl epguard mode observe --reason terminated
  kubectl epguard mode --unset --reason terminated   the agents' flags count again
  kubectl epguard mode observe --node worker-1")]
pub struct ModeArgs {
    /// The new mode [default: show the modes]
    #[arg(value_parser = one_of(Mode::ALL, Mode::as_str, Mode::help))]
    pub mode: Option<Mode>,
    /// Only this reason
    #[arg(long, value_parser = one_of(Reason::TO_DENY, Reason::as_str, Reason::help))]
    pub reason: Option<Reason>,
    /// Only nodes with the label epguard.io/canary=true
    #[arg(long, conflicts_with_all = ["reason", "nodes", "selector"])]
    pub canary: bool,
    /// Remove the mode, so that the agents' flags hold again
    #[arg(long, conflicts_with_all = ["mode", "nodes", "selector"])]
    pub unset: bool,
    /// Do not ask before the change
    #[arg(short, long)]
    pub yes: bool,
}

/// Shows or changes. Errors: the cluster cannot be asked, the change is refused, or the answer was not yes.
pub async fn run(scope: &Scope, args: &ModeArgs) -> Result<ExitCode> {
    // The parser sees only flags on the same side of the verb.
    ensure!(
        scope.is_whole() || !(args.canary || args.unset),
        "nothing is changed: --canary and --unset change the ConfigMap of all nodes; leave out --node and --selector"
    );
    let fleet = Fleet::find(scope).await?;
    let Some(change) = args.mode.map(Some).or(args.unset.then_some(None)) else {
        return show(&fleet).await;
    };
    if let (Some(mode), false) = (change, scope.is_whole()) {
        return chosen::switch(&fleet, mode, args).await;
    }
    let policy = Policy::read(&fleet).await?;
    let asked = status::conditions(&fleet).await;
    let key = Key::of(args.canary, args.reason);
    let nodes = Nodes::list(&fleet).await;
    let matters = key == Key::CanaryMode || policy.has_canary_mode();
    if let (Err(why), true) = (&nodes, matters) {
        output::error(&format!(
            "epguard: canaries are those whose agents follow canary-mode now: {why}"
        ));
    }
    let plan = Plan {
        key,
        to: change,
        policy: &policy,
        asked: &asked,
        nodes: nodes.as_ref().ok(),
    };
    output::line(&plan.text()).map_err(|error| unseen(&error))?;
    let code = known(&asked);
    if plan.is_done() {
        return Ok(code.into());
    }
    confirm(args.yes)?;
    policy.write(&fleet, key, change).await?;
    output::line("done; kubectl epguard status shows what each node does")?;
    Ok(code.into())
}

/// Prints the `ConfigMap`'s modes, and counts the nodes in each mode.
async fn show(fleet: &Fleet) -> Result<ExitCode> {
    let asked = status::conditions(fleet).await;
    let mut name = None;
    if fleet.scope.is_whole() {
        let policy = Policy::read(fleet).await?;
        output::line(&policy.text())?;
        name = Some(policy.name);
    }
    output::line(&plan::counts(&asked, name.as_deref()))?;
    if !asked.missing.is_empty() {
        output::line(&super::missing::text(&asked.missing))?;
    }
    Ok(known(&asked).into())
}

/// Exit code: whether all modes are known. A degraded node has a mode, too.
const fn known(asked: &Asked<Condition>) -> u8 {
    if asked.missing.is_empty() { 0 } else { UNKNOWN }
}

/// A plan that is not seen is not carried out, and that is no success.
pub(super) fn unseen(error: &Error) -> Error {
    anyhow!("nothing is changed: the plan cannot be printed: {error:#}")
}

/// Asks at the terminal. Errors: there is none, or the answer is not yes.
pub(super) fn confirm(yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !stdin().is_terminal() {
        bail!("nothing is changed: there is no terminal to ask at; pass --yes");
    }
    write!(stderr(), "Change it? [y/N] ").context("cannot ask")?;
    let mut answer = String::new();
    stdin().read_line(&mut answer).context("cannot read the answer")?;
    if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        return Ok(());
    }
    bail!("nothing is changed");
}
