//! Shows a story on a screen, and goes on after a claim that does not hold.

use std::fs;
use std::io::Stdout;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use epguard::shared::drops::Dropped;
use serde_json::json;

use super::maps;
use super::screen::Screen;
use super::tables::{listing, table};
use crate::api::{Kind, ObjectRef, Run};
use crate::process;
use crate::scenario::Presenter;
use crate::scenario::burst::Played;
use crate::scenario::format::{Scenario, Show, Step};
use crate::scenario::stage::Stage;

/// A screen, and which of the claims made there did not hold.
#[derive(Debug)]
pub(super) struct OnScreen {
    screen: Screen<Stdout>,
    claims: usize,
    broken: Vec<String>,
}

impl OnScreen {
    /// Shows the title.
    pub(super) fn new(story: &Scenario) -> Self {
        let mut screen = Screen::of_stdout();
        screen.heading(&format!("epguard: {}", story.title));
        let claims = 0;
        let broken = Vec::new();
        Self {
            screen,
            claims,
            broken,
        }
    }

    /// Shows that all claims held; an error if one did not.
    pub(super) fn end(mut self, story: &Scenario) -> Result<()> {
        let Self { claims, broken, .. } = &self;
        ensure!(
            broken.is_empty(),
            "{} of {claims} claims did not hold: {}",
            broken.len(),
            broken.join("; ")
        );
        self.screen.heading(&format!("All {claims} claims held"));
        self.screen.pause();
        self.screen.say(&story.must);
        Ok(())
    }
}

impl Presenter for OnScreen {
    fn step(&mut self, stage: &Stage, played: &[Played<'_>], step: &Step) -> Result<()> {
        match step {
            Step::Heading(text) => self.screen.heading(text),
            Step::Say(text) => self.screen.say(text),
            Step::Note(text) => self.screen.detail(text),
            Step::Epguard(words) => self.screen.command(&format!("epguard {words}")),
            Step::Show(Show::Objects) => self.screen.lines(&listing(&stage.cluster)),
            Step::Show(Show::Calls) => {
                let titles: Vec<&str> = played.iter().map(|played| &*played.burst.title).collect();
                self.screen
                    .table(&table(played, self.screen.width()), &titles);
            }
            Step::Show(Show::Maps) => {
                maps::show(stage, &mut self.screen)?;
                self.screen.pause();
            }
            Step::Show(Show::Fleet) => {
                self.screen.command("kubectl epguard status");
                self.screen.lines(&fleet_output(stage, "status")?);
                self.screen.pause();
            }
            _ => {}
        }
        Ok(())
    }

    fn answers(&mut self, so_far: &Played<'_>) {
        self.screen.answers(so_far);
    }

    fn counted(&mut self, played: &Played<'_>) {
        self.screen.pause();
        if let (Some(group), Some(Dropped { kind, openings, .. })) =
            (played.burst.denied(), played.reports.first())
        {
            self.screen.detail(&format!(
                "  epguard counts the connections to {}, and `epguard drops` shows them:",
                group.means
            ));
            let [outcome, reason] = [&kind.outcome, &kind.reason];
            self.screen.lines(&format!(
                "    {outcome} {reason} service={} opened={openings}",
                kind.service
            ));
            self.screen.lines(&format!(
                "    meant={} hit={} endpoint={}",
                kind.meant, kind.hit, kind.endpoint
            ));
            self.screen.pause();
        }
    }

    fn claim(&mut self, holds: bool, text: String, seen: String) -> Result<()> {
        self.claims += 1;
        self.screen.claim(holds, &text, &seen);
        if !holds {
            self.broken.push(text);
        }
        Ok(())
    }
}

/// The namespace of the agents.
pub(super) const NAMESPACE: &str = "epguard";
const NODE: &str = "node-a";

/// What `kubectl epguard` prints beside the story's API server, which runs its commands beside the
/// story's agent. A failure is text, too: the claims of the story judge epguard.
///
/// Errors: the agent's pod cannot be shown, or there is no epguard.
fn fleet_output(stage: &Stage, words: &str) -> Result<String> {
    let cluster = &stage.cluster;
    cluster.store.ensure_namespace(NAMESPACE)?;
    // The other node of the lab runs no agent, and needs none.
    let unlabelled = json!({"metadata": {"labels": {"kubernetes.io/os": null}}});
    cluster
        .store
        .patch(&ObjectRef::new(Kind::Node, "", "node-b"), &unlabelled)?;
    cluster.store.apply(json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "epguard-x7k2p", "namespace": NAMESPACE, "labels": {"app.kubernetes.io/name": "epguard"}},
        "spec": {"nodeName": NODE, "hostNetwork": true, "containers": [{"name": "agent"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }))?;
    let program = process::epguard()?;
    let run_dir = stage.workdir.path.clone();
    cluster.api.api.execs.answer(move |exec| {
        let mut command = Command::new(&program);
        command
            .args(&exec.command[1..])
            .arg("--run-dir")
            .arg(&run_dir);
        Run::Process(command)
    });
    let kubeconfig = stage.workdir.path.join("operator.kubeconfig");
    fs::write(&kubeconfig, cluster.api.kubeconfig()).context("cannot write a kubeconfig")?;
    let node = &cluster.topology.node(NODE)?.netns;
    let mut command = node.command(process::plugin()?);
    let output = command
        .env("KUBECONFIG", kubeconfig)
        .args(words.split(' '))
        .output()
        .context("cannot run kubectl-epguard")?;
    let text = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
}
