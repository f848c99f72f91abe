//! `kubectl epguard mode`: the modes of all nodes by the `ConfigMap` that the agents watch, or the
//! mode of chosen nodes until it changes.
//!
//! ```text
//! ConfigMap + status of all nodes -> what changes, and where -> question -> ConfigMap
//! ```

use super::agents::{Agent, Fleet, await_answer};
use super::answers::{FleetAnswers, NodeAnswer, UNKNOWN, group_by_value, name_nodes};
use super::ask::{DOCUMENT, PATIENCE, ask_nodes, command_line, failure, run_on_nodes};
use super::exec::Done;
use super::scope::Scope;
use anyhow::{Context as _, Result, anyhow, ensure};
use clap::{ArgGroup, Args};
use epguard_client::answers::status::Condition;
use epguard_client::shared::args::one_of;
use epguard_client::shared::output::{after, print};
use epguard_client::shared::plain::plain;
use epguard_common::{Mode, Reason};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
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
    let only_shows = args.mode.is_none() && !args.unset;
    let is_whole = fleet.scope.is_whole();
    if let Some(mode) = args.mode
        && !is_whole
    {
        return switch_nodes(fleet, mode, args).await;
    }
    let policy = if is_whole {
        Some(PolicyMap::fetch(fleet).await?)
    } else {
        None
    };
    let asked: FleetAnswers<Condition> = ask_nodes(fleet, &["status"], PATIENCE).await;
    let counts = count_modes(&asked, policy.as_ref());
    match policy {
        Some(policy) if only_shows => print(&format!("{}\n{counts}", policy.keys_text()))?,
        Some(policy) => {
            if print_plan(&policy, args, &counts)? {
                ask_user(args.yes)?;
                policy.write(policy_key(args), args.mode).await?;
                print("done; kubectl epguard status shows what each node does")?;
            }
        }
        None => print(&counts)?,
    }
    // Whether all modes are known. A degraded node has a mode, too.
    Ok(if asked.missing.is_empty() { 0 } else { UNKNOWN }.into())
}

/// Runs `epguard mode` on each chosen node. Errors: the answer was not yes.
async fn switch_nodes(fleet: &Fleet, mode: Mode, args: &FleetModeArgs) -> Result<ExitCode> {
    let without: Vec<&str> = fleet.missing.iter().map(|missing| &*missing.node).collect();
    ensure!(
        !fleet.agents.is_empty(),
        "nothing is changed: no agent runs on {}",
        without.join(", ")
    );
    let reason = after(" for ", args.reason);
    let nodes = name_nodes(&fleet.node_names());
    show_plan(&format!(
        "{mode}{reason} on {nodes}, until the agent restarts or the ConfigMap changes"
    ))?;
    ask_user(args.yes)?;
    let command = command_line(
        &["mode", mode.as_str()],
        &[("--reason", args.reason.map(Reason::as_str))],
    );
    let read = |_: &Agent, done: Done| match done.code {
        0 => Ok((Value::Null, (), 0)),
        _ => Err(failure(&done.stderr).unwrap_or_else(|| "it did not switch".to_owned())),
    };
    let answers = run_on_nodes(fleet, &command, PATIENCE, DOCUMENT, read).await;
    let switched: Vec<&str> = answers.answers.iter().map(NodeAnswer::node).collect();
    let mut text = String::new();
    if !switched.is_empty() {
        let _ = writeln!(text, "done: {}", name_nodes(&switched));
    }
    text.push_str(&answers.absent());
    print(text.trim_end())?;
    Ok(answers.code().into())
}

/// Prints what changes. Errors: it is not seen, so it is not carried out, and that is no success.
fn show_plan(plan: &str) -> Result<()> {
    print(plan)
        .map_err(|error| anyhow!("nothing is changed: the plan cannot be printed: {error:#}"))
}

/// Asks at the terminal. Errors: there is none, or the answer is not yes.
fn ask_user(yes: bool) -> Result<()> {
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
fn policy_key(args: &FleetModeArgs) -> &'static str {
    if args.canary {
        "canary-mode"
    } else {
        args.reason.map_or("mode", Reason::as_str)
    }
}

/// `2 in enforce (by mode policy): a, b`, a line for each mode and source, and the nodes that did
/// not answer. Nodes where this `ConfigMap` is not in force have lines of their own.
fn count_modes(asked: &FleetAnswers<Condition>, policy: Option<&PolicyMap>) -> String {
    let modes = asked
        .answers
        .iter()
        .map(|answer| (mode_of_node(answer, policy), answer.node()));
    let mut text = String::new();
    for (mode, nodes) in group_by_value(modes) {
        let _ = writeln!(text, "{} in {mode}: {}", nodes.len(), name_nodes(&nodes));
    }
    text.push_str(&asked.absent());
    text.truncate(text.trim_end().len());
    text
}

/// A node's mode, where it comes from, and what keeps this `ConfigMap` from being in force there.
fn mode_of_node(answer: &NodeAnswer<Condition>, policy: Option<&PolicyMap>) -> String {
    let status = &answer.known.status;
    let watched = answer.agent.mode_policy.as_deref().unwrap_or("none");
    let other = match policy {
        Some(policy) if policy.name != watched => format!(", ConfigMap {watched}"),
        _ => String::new(),
    };
    let problem = after("; ", status.mode_policy.as_deref().map(plain));
    format!(
        "{} (by {}{other}{problem})",
        status.mode_name(),
        status.mode_source
    )
}

/// Prints the key's values before and after, and what the nodes do now. False: nothing changes.
/// Errors: it cannot be printed.
fn print_plan(policy: &PolicyMap, args: &FleetModeArgs, counts: &str) -> Result<bool> {
    let name = &policy.name;
    let key = policy_key(args);
    let from = policy
        .data()
        .find(|(set_key, _)| *set_key == key)
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
    show_plan(&format!(
        "ConfigMap {name}: {key}{change}{}\nnow:\n{counts}",
        after("\n", canaries)
    ))?;
    Ok(from != to)
}

/// The `ConfigMap` of modes, as it was read.
struct PolicyMap {
    /// `namespace/name`.
    name: String,
    api: Api<ConfigMap>,
    /// None if it does not exist.
    map: Option<ConfigMap>,
    scope: Scope,
}

impl PolicyMap {
    /// Reads the one that the agents watch. Errors: they watch none, or it cannot be read; in one
    /// line with the remedy.
    async fn fetch(fleet: &Fleet) -> Result<Self> {
        // While a rollout changes it, most agents decide.
        let watched = fleet
            .agents
            .iter()
            .filter_map(|agent| Some((agent.mode_policy.clone()?, &*agent.node)));
        let most = group_by_value(watched)
            .into_iter()
            .rev()
            .max_by_key(|(_, nodes)| nodes.len());
        let name = most.map(|(name, _)| name).context(
            "the agents watch no ConfigMap: add --mode-policy=NAMESPACE/NAME to their arguments, as deploy/epguard.yaml does, or pass --node",
        )?;
        let (namespace, object) = name
            .split_once('/')
            .with_context(|| format!("{name} is no NAMESPACE/NAME (--mode-policy)"))?;
        let api = Api::namespaced(fleet.client.clone(), namespace);
        let right = format!("the verb get on configmaps in namespace {namespace}");
        let map = await_answer(
            &fleet.scope,
            &format!("read ConfigMap {name}"),
            &right,
            api.get_opt(object),
        )
        .await?;
        let scope = fleet.scope.clone();
        Ok(Self {
            name,
            api,
            map,
            scope,
        })
    }

    /// Its keys and values.
    fn data(&self) -> impl Iterator<Item = (&str, &str)> {
        let data = self.map.iter().flat_map(|map| map.data.iter().flatten());
        data.map(|(key, value)| (key.as_str(), value.trim()))
    }

    /// Its keys for people.
    fn keys_text(&self) -> String {
        let keys: Vec<String> = self
            .data()
            .map(|(key, value)| plain(&format!("{key}: {value}")).into_owned())
            .collect();
        if keys.is_empty() {
            return format!(
                "ConfigMap {}: no mode is set, so the agents' flags hold",
                self.name
            );
        }
        format!("ConfigMap {}: {}", self.name, keys.join(", "))
    }

    /// Sets or removes a key. Errors: the account may not, or the `ConfigMap` was changed since it
    /// was read.
    async fn write(&self, key: &str, value: Option<Mode>) -> Result<()> {
        let object = self.name.rsplit('/').next().unwrap_or_default();
        let write = async {
            if let Some(map) = &self.map {
                let version = &map.metadata.resource_version;
                let data = json!({key: value.map(Mode::as_str)});
                let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
                self.api
                    .patch(object, &PatchParams::default(), &Patch::Merge(patch))
                    .await
            } else {
                let data = value.map(|value| BTreeMap::from([(key.to_owned(), value.to_string())]));
                let mut map = ConfigMap {
                    data,
                    ..ConfigMap::default()
                };
                map.metadata.name = Some(object.to_owned());
                self.api.create(&PostParams::default(), &map).await
            }
        };
        let right = "the verbs create and patch on configmaps there";
        let what = format!("write ConfigMap {}", self.name);
        await_answer(&self.scope, &what, right, write)
            .await
            .map(drop)
    }
}
