//! New denials of all nodes, a line each, as they come.

use crate::commands::drops::{Filter, Follower, text_line};
use crate::commands::top::Document;
use crate::fleet::agents::Fleet;
use crate::fleet::output;
use crate::fleet::scope::Form;
use crate::fleet::stream::{self, Update};
use crate::shared::drops::Dropped;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// A line of `-o json`.
#[derive(Serialize)]
struct Line<'a> {
    node: &'a str,
    #[serde(flatten)]
    dropped: &'a Dropped,
}

/// Prints until interrupted. Nodes that stop answering are named on standard error, and asked again. Errors: the output
/// fails.
pub async fn run(fleet: Fleet, filter: &Filter) -> Result<ExitCode> {
    let form = fleet.scope.output;
    let mut updates = stream::documents(fleet);
    let mut followers: BTreeMap<String, Follower> = BTreeMap::new();
    while let Some((node, update)) = updates.recv().await {
        match update {
            Update::Document(document) => print(&node, *document, filter, form, &mut followers)?,
            Update::Lost(why) => output::error(&format!("epguard: no answer from {node}: {why}")),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(
    node: &str,
    document: Document,
    filter: &Filter,
    form: Form,
    followers: &mut BTreeMap<String, Follower>,
) -> Result<()> {
    let Some(agent) = document.agent else {
        return Ok(());
    };
    let follower = followers.entry(node.to_owned()).or_default();
    for dropped in follower.new_of(&filter.of(agent.drops)) {
        let line = match form {
            Form::Table | Form::Wide => format!("{node}: {}", text_line(&dropped)),
            Form::Json | Form::Yaml => {
                let dropped = &dropped;
                serde_json::to_string(&Line { node, dropped })?
            }
        };
        output::line(&line)?;
    }
    Ok(())
}
