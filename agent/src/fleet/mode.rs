//! `kubectl epguard mode`: the modes of all nodes by the `ConfigMap` that the agents watch, or the mode of chosen nodes
//! until it changes.
//!
//! ```text
//! ConfigMap + status of all nodes -> what changes, and where -> question -> ConfigMap
//! ```

use super::agents::{Fleet, PATIENCE};
use super::ask::{self, Asked, UNKNOWN, failure};
use super::modes::Policy;
use super::nodes::{grouped, names};
use super::scope::Scope;
use super::status;
use crate::commands::status::Condition;
use crate::shared::args::one_of;
use crate::shared::output::print;
use crate::shared::plain::plain;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::Args;
use epguard_common::{Mode, Reason};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _, stderr, stdin};
use std::process::ExitCode;
use tokio::time::timeout;

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
    /// Only this reason, with a mode or --unset
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
    let shows = args.mode.is_none() && !args.unset;
    // The parser sees only flags on the same side of the verb.
    ensure!(
        scope.is_whole() || !(args.canary || args.unset),
        "nothing is changed: --canary and --unset change the ConfigMap of all nodes; leave out --node and --selector"
    );
    ensure!(
        !shows || args.reason.is_none() && !args.canary,
        "nothing is changed: --reason and --canary need a mode, or --unset; without them all modes are shown"
    );
    let fleet = Fleet::find(scope).await?;
    if let (Some(mode), false) = (args.mode, scope.is_whole()) {
        return switch(&fleet, mode, args).await;
    }
    let policy = if scope.is_whole() { Some(policy(&fleet).await?) } else { None };
    let asked = status::conditions(&fleet).await;
    let counts = counts(&asked, policy.as_ref().map(|policy| &*policy.name));
    match policy {
        Some(policy) if shows => print(&format!("{}\n{counts}", text(&policy)))?,
        Some(policy) => {
            if plan(&policy, args, &counts)? {
                confirm(args.yes)?;
                write(&policy, &fleet, key(args), args.mode).await?;
                print("done; kubectl epguard status shows what each node does")?;
            }
        }
        None => print(&counts)?,
    }
    // Whether all modes are known. A degraded node has a mode, too.
    Ok(if asked.missing.is_empty() { 0 } else { UNKNOWN }.into())
}

/// The `ConfigMap` of most agents. Errors: they watch none, or it cannot be read.
async fn policy(fleet: &Fleet) -> Result<Policy> {
    Policy::read(fleet).await?.context(
        "the agents watch no ConfigMap: add --fleet-config=NAMESPACE/NAME to their arguments, as deploy/base does, or pass --node",
    )
}

/// Runs `epguard mode` on each chosen node. Errors: the answer was not yes.
async fn switch(fleet: &Fleet, mode: Mode, args: &ModeArgs) -> Result<ExitCode> {
    let reason = args.reason.map(|reason| format!(" for {reason}"));
    let (what, nodes) = (reason.unwrap_or_default(), names(&fleet.names()));
    let without: Vec<&str> = fleet.missing.iter().map(|missing| &*missing.node).collect();
    ensure!(!fleet.agents.is_empty(), "nothing is changed: no agent runs on {}", without.join(", "));
    show(&format!("{mode}{what} on {nodes}, until the agent restarts or the ConfigMap changes"))?;
    confirm(args.yes)?;
    let mut command = vec!["mode", mode.as_str()];
    command.extend(args.reason.iter().flat_map(|reason| ["--reason", reason.as_str()]));
    let asked = ask::each(fleet, &command, ask::PATIENCE, 0, |_, done| match done.code {
        0 => Ok((json!(null), (), 0)),
        _ => Err(failure(&done.stderr).unwrap_or_else(|| "it did not switch".to_owned())),
    })
    .await;
    let done = (!asked.answers.is_empty()).then(|| format!("done: {}", names(&asked.nodes())));
    let lines = done.into_iter().chain(Some(asked.absent()).filter(|absent| !absent.is_empty()));
    print(&lines.collect::<Vec<_>>().join("\n"))?;
    Ok(asked.code().into())
}

/// Prints what changes. Errors: it is not seen, so it is not carried out, and that is no success.
fn show(plan: &str) -> Result<()> {
    print(plan).map_err(|error| anyhow!("nothing is changed: the plan cannot be printed: {error:#}"))
}

/// Asks at the terminal. Errors: there is none, or the answer is not yes.
fn confirm(yes: bool) -> Result<()> {
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

/// The key of the `ConfigMap` that the flags mean.
fn key(args: &ModeArgs) -> &'static str {
    if args.canary { "canary-mode" } else { args.reason.map_or("mode", Reason::as_str) }
}

/// `2 in enforce (by configmap): a, b`, a line for each mode and source, and the nodes that did not answer. Nodes that do not watch
/// this `ConfigMap` have lines of their own.
fn counts(asked: &Asked<Condition>, config_map: Option<&str>) -> String {
    let modes = grouped(asked.answers.iter().map(|answer| {
        let status = &answer.known.status;
        let other = match (&answer.agent.config_map, config_map) {
            (Some(own), Some(this)) if own != this => format!(" {own}"),
            (None, Some(_)) => ", no ConfigMap".to_owned(),
            _ => String::new(),
        };
        (format!("{} (by {}{other})", status.mode_name(), status.mode_source), answer.node())
    }));
    let lines = modes.iter().map(|(mode, nodes)| format!("{} in {mode}: {}", nodes.len(), names(nodes)));
    let lines = lines.chain(Some(asked.absent()).filter(|absent| !absent.is_empty()));
    lines.collect::<Vec<_>>().join("\n")
}

/// The keys of the `ConfigMap` for people.
fn text(policy: &Policy) -> String {
    let keys = policy.data().map(|(key, value)| plain(&format!("{key}: {value}")).into_owned());
    let keys = keys.collect::<Vec<_>>().join(", ");
    let name = &policy.name;
    match (&policy.map, keys.is_empty()) {
        (None, _) => format!("ConfigMap {name} does not exist: the agents' flags hold"),
        (Some(_), true) => format!("ConfigMap {name} has no key: the agents' flags hold"),
        (Some(_), false) => format!("ConfigMap {name}: {keys}"),
    }
}

/// Prints the key's values before and after, and what the nodes do now. False: nothing changes. Errors: it cannot be printed.
fn plan(policy: &Policy, args: &ModeArgs, counts: &str) -> Result<bool> {
    let (name, key) = (&policy.name, key(args));
    let from = policy.data().find(|(one, _)| *one == key).map(|(_, value)| value);
    let to = args.mode.map(Mode::as_str);
    let changes = from != to;
    let [from, to] = [from, to].map(|value| plain(value.unwrap_or("not set")));
    let mut text = if changes {
        format!("ConfigMap {name}: {key}: {from} -> {to}")
    } else {
        format!("ConfigMap {name}: {key} is {to} already")
    };
    if args.canary {
        text.push_str("\nfor each node with the label epguard.io/canary=true");
    }
    for error in policy.map.iter().flat_map(|(_, modes)| &modes.errors) {
        let _ = write!(
            text,
            "\nit has an error, so it only lowers modes; without errors all its keys count: {}",
            plain(error)
        );
    }
    show(&format!("{text}\nnow:\n{counts}"))?;
    Ok(changes)
}

/// Sets or removes a key. Errors: the account may not, or the `ConfigMap` was changed since it was read.
async fn write(policy: &Policy, fleet: &Fleet, key: &str, value: Option<Mode>) -> Result<()> {
    let name = &policy.name;
    let (maps, own_name) = Policy::api(fleet, name)?;
    let data = json!({key: value.map(Mode::as_str)});
    let write = async {
        if let Some((map, _)) = &policy.map {
            let version = &map.metadata.resource_version;
            let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
            maps.patch(own_name, &PatchParams::default(), &Patch::Merge(patch)).await
        } else {
            let data = value.map(|value| BTreeMap::from([(key.to_owned(), value.to_string())]));
            let mut map = ConfigMap { data, ..ConfigMap::default() };
            map.metadata.name = Some(own_name.to_owned());
            maps.create(&PostParams::default(), &map).await
        }
    };
    let written = timeout(PATIENCE, write)
        .await
        .with_context(|| format!("ConfigMap {name} may have been written: the API server does not answer"))?;
    written.map(drop).map_err(|error| match error {
        kube::Error::Api(status) if status.code == 403 => anyhow!(
            "nothing is changed: may not write ConfigMap {name}: grant the account the verbs create and patch on configmaps there"
        ),
        kube::Error::Api(status) if status.code == 409 => {
            anyhow!("nothing is changed: ConfigMap {name} was changed meanwhile; run this again")
        }
        error => {
            let cause = anyhow::Error::from(error).root_cause().to_string();
            anyhow!("ConfigMap {name} was not written: {cause}")
        }
    })
}
