//! `kubectl epguard mode`: the modes of all nodes by the `ConfigMap` that the agents watch, or the
//! mode of chosen nodes until it changes.
//!
//! ```text
//! ConfigMap + status of all nodes -> what changes, and where -> question -> ConfigMap
//! ```

use super::agents::{Fleet, answer};
use super::ask::{self, Answer, Asked, UNKNOWN, command, failure, grouped, names};
use crate::commands::status::Condition;
use crate::shared::args::one_of;
use crate::shared::output::{after, print};
use crate::shared::plain::plain;
use anyhow::{Context as _, Result, anyhow, ensure};
use clap::{ArgGroup, Args};
use epguard_common::{Mode, Reason};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _, stderr, stdin};
use std::process::ExitCode;

/// Options of `kubectl epguard mode`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").args(["mode", "unset"])), after_help = "\
Without --node and --selector the mode is that of the cluster: a key of the ConfigMap that all agents watch
(--mode-policy). Each agent follows within milliseconds, and a new agent has it, too. With --node or --selector the agents
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
pub async fn run(fleet: &Fleet, args: &ModeArgs) -> Result<ExitCode> {
    let (shows, is_whole) = (args.mode.is_none() && !args.unset, fleet.scope.is_whole());
    if let (Some(mode), false) = (args.mode, is_whole) {
        return switch(fleet, mode, args).await;
    }
    let policy = if is_whole {
        Some(Policy::fetch(fleet).await?)
    } else {
        None
    };
    let asked: Asked<Condition> = ask::ask(fleet, &["status"], ask::PATIENCE).await;
    let counts = counts(&asked, policy.as_ref());
    match policy {
        Some(policy) if shows => print(&format!("{}\n{counts}", policy.text()))?,
        Some(policy) => {
            if plan(&policy, args, &counts)? {
                confirm(args.yes)?;
                policy.write(key(args), args.mode).await?;
                print("done; kubectl epguard status shows what each node does")?;
            }
        }
        None => print(&counts)?,
    }
    // Whether all modes are known. A degraded node has a mode, too.
    Ok(if asked.missing.is_empty() { 0 } else { UNKNOWN }.into())
}

/// Runs `epguard mode` on each chosen node. Errors: the answer was not yes.
async fn switch(fleet: &Fleet, mode: Mode, args: &ModeArgs) -> Result<ExitCode> {
    let reason = args.reason.map(|reason| format!(" for {reason}"));
    let (what, nodes) = (reason.unwrap_or_default(), names(&fleet.names()));
    let without: Vec<&str> = fleet.missing.iter().map(|missing| &*missing.node).collect();
    ensure!(
        !fleet.agents.is_empty(),
        "nothing is changed: no agent runs on {}",
        without.join(", ")
    );
    show(&format!(
        "{mode}{what} on {nodes}, until the agent restarts or the ConfigMap changes"
    ))?;
    confirm(args.yes)?;
    let command = command(
        &["mode", mode.as_str()],
        &[("--reason", args.reason.map(Reason::as_str))],
    );
    let asked = ask::each(
        fleet,
        &command,
        ask::PATIENCE,
        ask::DOCUMENT,
        |_, done| match done.code {
            0 => Ok((Value::Null, (), 0)),
            _ => Err(failure(&done.stderr).unwrap_or_else(|| "it did not switch".to_owned())),
        },
    )
    .await;
    let done: Vec<&str> = asked.answers.iter().map(Answer::node).collect();
    let done = if done.is_empty() {
        String::new()
    } else {
        format!("done: {}\n", names(&done))
    };
    print(format!("{done}{}", asked.absent()).trim_end())?;
    Ok(asked.code().into())
}

/// Prints what changes. Errors: it is not seen, so it is not carried out, and that is no success.
fn show(plan: &str) -> Result<()> {
    print(plan)
        .map_err(|error| anyhow!("nothing is changed: the plan cannot be printed: {error:#}"))
}

/// Asks at the terminal. Errors: there is none, or the answer is not yes.
fn confirm(yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    ensure!(
        stdin().is_terminal(),
        "nothing is changed: there is no terminal to ask at; pass --yes"
    );
    write!(stderr(), "Change it? [y/N] ").context("cannot ask")?;
    let mut answer = String::new();
    stdin()
        .read_line(&mut answer)
        .context("cannot read the answer")?;
    ensure!(
        ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()),
        "nothing is changed"
    );
    Ok(())
}

/// The key of the `ConfigMap` that the flags mean.
fn key(args: &ModeArgs) -> &'static str {
    if args.canary {
        "canary-mode"
    } else {
        args.reason.map_or("mode", Reason::as_str)
    }
}

/// `2 in enforce (by mode policy): a, b`, a line for each mode and source, and the nodes that did not
/// answer. Nodes where this `ConfigMap` is not in force have lines of their own.
fn counts(asked: &Asked<Condition>, policy: Option<&Policy>) -> String {
    let modes = grouped(asked.answers.iter().map(|answer| {
        let status = &answer.known.status;
        let own = answer.agent.mode_policy.as_deref().unwrap_or("none");
        let other = policy.filter(|policy| policy.name != own).map(|_| own);
        let (other, problem) = (
            after(", ConfigMap ", other),
            after("; ", status.mode_policy.as_deref().map(plain)),
        );
        (
            format!(
                "{} (by {}{other}{problem})",
                status.mode_name(),
                status.mode_source
            ),
            answer.node(),
        )
    }));
    let lines = modes
        .iter()
        .map(|(mode, nodes)| format!("{} in {mode}: {}", nodes.len(), names(nodes)));
    let lines = lines.chain(Some(asked.absent()).filter(|absent| !absent.is_empty()));
    lines.collect::<Vec<_>>().join("\n")
}

/// Prints the key's values before and after, and what the nodes do now. False: nothing changes.
/// Errors: it cannot be printed.
fn plan(policy: &Policy, args: &ModeArgs, counts: &str) -> Result<bool> {
    let (name, key) = (&policy.name, key(args));
    let from = policy
        .data()
        .find(|(one, _)| *one == key)
        .map(|(_, value)| value);
    let to = args.mode.map(Mode::as_str);
    let [shown, new] = [from, to].map(|value| plain(value.unwrap_or("not set")));
    let change = if from == to {
        format!(" is {new} already")
    } else {
        format!(": {shown} -> {new}")
    };
    let canaries = args
        .canary
        .then_some("for each node with the label epguard.io/canary=true");
    show(&format!(
        "ConfigMap {name}: {key}{change}{}\nnow:\n{counts}",
        after("\n", canaries)
    ))?;
    Ok(from != to)
}

/// The `ConfigMap` of modes, as it was read.
struct Policy {
    /// `namespace/name`.
    name: String,
    api: Api<ConfigMap>,
    /// None if it does not exist.
    map: Option<ConfigMap>,
}

impl Policy {
    /// Reads the one that the agents watch. Errors: they watch none, or it cannot be read; in one
    /// line with the remedy.
    async fn fetch(fleet: &Fleet) -> Result<Self> {
        // While a rollout changes it, most agents decide.
        let named = fleet
            .agents
            .iter()
            .filter_map(|agent| Some((agent.mode_policy.clone()?, &*agent.node)));
        let most = grouped(named)
            .into_iter()
            .rev()
            .max_by_key(|(_, nodes)| nodes.len());
        let name = most.map(|(name, _)| name).context(
            "the agents watch no ConfigMap: add --mode-policy=NAMESPACE/NAME to their arguments, as deploy/epguard.yaml does, or pass --node",
        )?;
        let parts = name.split_once('/');
        let (namespace, own_name) =
            parts.with_context(|| format!("{name} is no NAMESPACE/NAME (--mode-policy)"))?;
        let api = Api::namespaced(fleet.client.clone(), namespace);
        let right = format!("the verb get on configmaps in namespace {namespace}");
        let map = answer(
            &format!("read ConfigMap {name}"),
            &right,
            api.get_opt(own_name),
        )
        .await?;
        Ok(Self { name, api, map })
    }

    /// Its keys and values.
    fn data(&self) -> impl Iterator<Item = (&str, &str)> {
        let data = self.map.iter().flat_map(|map| map.data.iter().flatten());
        data.map(|(key, value)| (key.as_str(), value.trim()))
    }

    /// Its keys for people.
    fn text(&self) -> String {
        let keys = self
            .data()
            .map(|(key, value)| plain(&format!("{key}: {value}")).into_owned());
        let keys = keys.collect::<Vec<_>>().join(", ");
        let keys = if keys.is_empty() {
            "no mode is set, so the agents' flags hold"
        } else {
            &keys
        };
        format!("ConfigMap {}: {keys}", self.name)
    }

    /// Sets or removes a key. Errors: the account may not, or the `ConfigMap` was changed since it
    /// was read.
    async fn write(&self, key: &str, value: Option<Mode>) -> Result<()> {
        let own_name = self.name.rsplit('/').next().unwrap_or_default();
        let write = async {
            if let Some(map) = &self.map {
                let version = &map.metadata.resource_version;
                let data = json!({key: value.map(Mode::as_str)});
                let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
                self.api
                    .patch(own_name, &PatchParams::default(), &Patch::Merge(patch))
                    .await
            } else {
                let data = value.map(|value| BTreeMap::from([(key.to_owned(), value.to_string())]));
                let mut map = ConfigMap {
                    data,
                    ..ConfigMap::default()
                };
                map.metadata.name = Some(own_name.to_owned());
                self.api.create(&PostParams::default(), &map).await
            }
        };
        let right = "the verbs create and patch on configmaps there";
        answer(&format!("write ConfigMap {}", self.name), right, write)
            .await
            .map(drop)
    }
}
