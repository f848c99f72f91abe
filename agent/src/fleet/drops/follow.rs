//! New denials of all nodes, a line each, as they come.

use crate::commands::drops::{Filter, Follower, text_line};
use crate::commands::top::Document;
use crate::fleet::agents::Fleet;
use crate::fleet::ask::UNKNOWN;
use crate::fleet::missing::{self, Missing};
use crate::fleet::output;
use crate::fleet::scope::Form;
use crate::fleet::stream::{self, Update};
use crate::shared::drops::Dropped;
use anyhow::Result;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, interval};

/// Time between two looks at which nodes stopped answering.
const PACE: Duration = Duration::from_secs(1);

/// A line of `-o json`.
#[derive(Serialize)]
struct Line<'a> {
    node: &'a str,
    #[serde(flatten)]
    dropped: &'a Dropped,
}

/// Prints until interrupted, or until no node can be asked any more. Nodes that stop answering are named on standard error
/// once, those with the same cause in one line. Errors: the output fails.
pub async fn run(fleet: Fleet, filter: &Filter) -> Result<ExitCode> {
    let form = fleet.scope.output;
    let mut lost = Lost::new(&fleet);
    let mut updates = stream::documents(fleet);
    let mut followers: BTreeMap<String, Follower> = BTreeMap::new();
    let mut ticks = interval(PACE);
    loop {
        tokio::select! {
            update = updates.recv() => match update {
                Some((node, Update::Document(document))) => {
                    lost.waiting.remove(&node);
                    print(&node, *document, filter, form, &mut followers)?;
                }
                Some((node, Update::Lost(why))) => lost.add(node, why),
                None => break,
            },
            _ = ticks.tick() => lost.report(),
        }
    }
    lost.name();
    Ok(UNKNOWN.into())
}

/// Nodes that stopped answering, and are not named yet.
struct Lost {
    missing: Vec<Missing>,
    /// Nodes without any answer yet. The first report waits for them, to name all with the same cause at once.
    waiting: BTreeSet<String>,
    until: Instant,
}

impl Lost {
    fn new(fleet: &Fleet) -> Self {
        Self {
            missing: fleet.without(),
            waiting: fleet.agents.iter().map(|agent| agent.node.clone()).collect(),
            until: Instant::now() + fleet.scope.patience(stream::PATIENCE) + PACE,
        }
    }

    fn add(&mut self, node: String, why: String) {
        self.waiting.remove(&node);
        self.missing.push(Missing { node, why });
    }

    fn report(&mut self) {
        if self.waiting.is_empty() || Instant::now() >= self.until {
            self.name();
        }
    }

    fn name(&mut self) {
        self.missing.sort();
        let text = missing::text(&self.missing);
        text.lines()
            .for_each(|line| output::error(&format!("epguard: {line}")));
        self.missing.clear();
    }
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
