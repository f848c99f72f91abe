//! `kubectl epguard check`: plays stale traffic on chosen nodes, and compares what was sent with
//! what each node's agent has seen.
//!
//! ```text
//! rights, nodes, namespaces -> play: objects -> callers and agents -> compare (pure) -> table
//! always: the namespaces are removed
//! ```

mod api;
mod cause;
mod clean;
mod compare;
mod evidence;
mod nodes;
mod objects;
mod plan;
mod play;
mod pods;
mod progress;
mod rights;
mod rows;
mod table;

use super::agents::Fleet;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use epguard_client::shared::output::print;
use nodes::NotChecked;
use objects::Site;
use plan::{Caller, Plan};
use play::{Play, Played};
use progress::progress;
use rows::rows;
use std::process::ExitCode;
use std::time::Duration;
use table::CheckReport;
use tokio::signal::ctrl_c;

/// The longest wait for each step, unless `--timeout` sets one.
const STEP: Duration = Duration::from_mins(2);

/// Options of `kubectl epguard check`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(override_usage = "\
kubectl epguard check [OPTIONS]
       kubectl epguard check --clean [OPTIONS]")]
#[command(after_help = "\
Exit code: 0 each call was seen as it has to be, 1 one was not, 2 nothing could be compared, a \
chosen node has no agent, or a namespace is left.

Without --node, --selector or --all it checks one node of each pool (OS image, kernel, \
architecture, images of the CNI), at most three.

--timeout is the longest wait for each answer, and here for each step, too: pods that start, calls, \
their end. Without it a step has 120 s, a node 5 s, and each answer of the API server 30 s.

Examples:
  kubectl epguard check            pods' calls, from up to three nodes
  kubectl epguard check --node worker-1 --host
  kubectl epguard check --all -o json | jq '.rows[] | select(.ok | not)'
  kubectl epguard check --clean    remove what an interrupted check has left")]
pub struct CheckArgs {
    /// Check each node that has an agent
    #[arg(long)]
    all: bool,
    /// Call from pods of the host network, too; makes a third namespace that allows host-network
    /// pods
    #[arg(long)]
    host: bool,
    /// The image of the check's pods [default: that of the agents]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Leave the check's namespaces, to look at its pods
    #[arg(long)]
    keep: bool,
    /// Only remove the namespaces that earlier checks have left
    #[arg(long, conflicts_with_all = ["all", "host", "image", "keep"])]
    clean: bool,
}

/// Checks, prints, and removes what it has made. Errors: nothing can be compared, or something is
/// left.
pub async fn run(mut fleet: Fleet, args: &CheckArgs) -> Result<ExitCode> {
    let patience = fleet.scope.patience(STEP);
    if args.clean {
        return clean::run(&fleet, patience).await;
    }
    ensure!(
        !args.all || fleet.scope.is_whole(),
        "--all cannot be used with --node or --selector: leave it out"
    );
    rights::look_up(&fleet).await?;
    clean::refuse_second(&fleet).await?;
    let (plan, not_checked) = plan(&fleet, args).await?;
    let site = Site::new(image(&fleet, args)?);
    fleet.choose(plan.nodes.iter().cloned().collect());
    let check = Play {
        fleet: &fleet,
        plan: &plan,
        site: &site,
        patience,
    };
    let played = unless_interrupted(async {
        clean::open(&fleet, &site, &plan).await?;
        check.run().await
    })
    .await;
    let shown = played.and_then(|played| show(&fleet, &plan, &played, not_checked));
    if args.keep {
        let names = site.namespaces(&plan.callers).join(", ");
        progress(&format!("keeps {names}: remove them with --clean"));
        return shown;
    }
    let removed = unless_interrupted(clean::remove(&fleet, &site, &plan, patience))
        .await
        .context("namespaces are left: `kubectl epguard check --clean`");
    match (shown, removed) {
        (Err(error), Err(left)) => bail!("{error:#}; {left:#}"),
        (shown, removed) => removed.and(shown),
    }
}

/// Ends the work on Ctrl-C. Errors: its own, or that.
async fn unless_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        done = work => done,
        signal = interrupted() => {
            signal.context("cannot wait for signals")?;
            bail!("interrupted")
        }
    }
}

/// Waits for Ctrl-C, or for a signal by which a job or its terminal ends.
async fn interrupted() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut end = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        tokio::select! {
            done = ctrl_c() => done,
            _ = end.recv() => Ok(()),
            _ = hangup.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    ctrl_c().await
}

async fn plan(fleet: &Fleet, args: &CheckArgs) -> Result<(Plan, NotChecked)> {
    let (nodes, not_checked) = nodes::choose(fleet, args.all).await?;
    ensure!(
        !nodes.is_empty(),
        "nothing is made: no node that has an agent is listed: name one with --node"
    );
    let mut callers = vec![Caller::Pod];
    if args.host {
        callers.push(Caller::Host);
    }
    Ok((Plan { nodes, callers }, not_checked))
}

/// The image of the check's pods. Each node of an agent has the agents'.
fn image(fleet: &Fleet, args: &CheckArgs) -> Result<String> {
    let own = fleet.agents.first().and_then(|agent| agent.image.as_ref());
    let image = args.image.as_ref().or(own);
    Ok(image
        .context("no agent shows its image: pass --image")?
        .clone())
}

fn show(fleet: &Fleet, plan: &Plan, played: &Played, not_checked: NotChecked) -> Result<ExitCode> {
    let report = CheckReport::new(plan.nodes.clone(), rows(plan, played), not_checked);
    let screen = fleet.scope.screen();
    let output = fleet.scope.output.of_documents();
    print(&output.text(&report, |report| report.to_text(screen))?)?;
    Ok(report.code().into())
}
