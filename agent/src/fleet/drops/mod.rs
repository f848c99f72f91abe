//! `kubectl epguard drops`: denied flows of all nodes, or new ones as they come.

mod follow;
mod merge;

pub use merge::merged;

use super::agents::Fleet;
use super::ask::{self, Answer};
use super::document::{self, Nothing};
use super::lines::{self, Line};
use super::missing::names;
use super::scope::Scope;
use crate::commands::drops::{Filter, table};
use crate::shared::args::{one_of, service};
use crate::shared::drops::Dropped;
use anyhow::Result;
use clap::Args;
use epguard_common::Reason;
use std::process::ExitCode;

/// Options of `kubectl epguard drops`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl epguard drops                    what any node denied, or would have, since its agent's start
  kubectl epguard drops -f -n shop         new denials as they come, for the Services of one namespace
  kubectl epguard drops --node worker-1 --reason reused -o json")]
pub struct DropsArgs {
    /// Print new denials of all nodes every second until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Only this Service
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = service)]
    pub service: Option<String>,
    /// Only this reason
    #[arg(long, value_parser = one_of(Reason::TO_DENY, Reason::as_str, Reason::help))]
    pub reason: Option<Reason>,
}

/// Asks and prints. Errors: the cluster cannot be asked.
pub async fn run(scope: &Scope, args: &DropsArgs) -> Result<ExitCode> {
    let fleet = Fleet::find(scope).await?;
    let filter = &Filter {
        namespace: scope.namespace.clone(),
        service: args.service.clone(),
        reason: args.reason,
    };
    if args.follow {
        fleet.require()?;
        return follow::run(fleet, filter).await;
    }
    let command = ["drops", "-o", "json"];
    let mut asked = ask::ask::<Vec<Line<Dropped>>>(&fleet, &command, scope.patience(ask::PATIENCE)).await;
    for answer in &mut asked.answers {
        answer.value.retain(|line| match line {
            Line::Known(dropped) => filter.wants(&dropped.kind),
            Line::Other(_) => !filter.is_narrowed(),
        });
    }
    document::print(scope.output, &asked, Nothing {}, |answers| text(answers, filter))
}

fn text(answers: &[Answer<Vec<Line<Dropped>>>], filter: &Filter) -> String {
    if answers.is_empty() {
        return String::new();
    }
    let all = answers
        .iter()
        .map(|answer| (answer.node(), lines::known(&answer.value)));
    let all: Vec<(&str, Vec<Dropped>)> = all.collect();
    let rows = merged(all.iter().map(|(node, drops)| (*node, &drops[..])));
    let nodes: Vec<String> = rows.iter().map(|(_, nodes)| names(nodes)).collect();
    let drops: Vec<Dropped> = rows.into_iter().map(|(dropped, _)| dropped).collect();
    let table = table(&drops, Some(&nodes), filter.is_narrowed());
    match lines::left_out(answers) {
        Some(others) if drops.is_empty() => others,
        Some(others) => format!("{table}\n\n{others}"),
        None => table,
    }
}
