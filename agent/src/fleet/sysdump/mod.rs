//! `kubectl epguard sysdump`: one archive with the archives of all nodes, and what only the API shows.

pub(super) mod parts;

use super::agents::{Agent, Fleet, LABEL, all};
use super::ask::{self, UNKNOWN, failure};
use super::scope::{Form, Scope};
use crate::commands::sysdump::{add, file_of, json};
use crate::shared::output::{complain, count};
use anyhow::{Context as _, Result};
use clap::Args;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Seconds to wait for a node: it reads all of its tables.
const PATIENCE: u64 = 60;
/// Most octets of a node's archive. It has some MB.
const ARCHIVE: u64 = 64 << 20;
/// The most nodes that are asked at a time, as the memory holds their archives.
const PARALLEL: u16 = 8;

/// Options of `kubectl epguard sysdump`.
#[derive(Debug, Args)]
#[command(after_help = "\
The archive has a folder for each node, with the parts of epguard sysdump, and the agents' pods and Events. It contains names of
pods and Services, IP addresses, routes, interfaces and stale flows, and no credentials.

Examples:
  kubectl epguard sysdump
  kubectl epguard sysdump --node worker-1 -f worker-1.tar")]
pub struct SysdumpArgs {
    /// The archive [default: epguard-sysdump-TIME.tar]
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Writes the archive. Its `missing.txt` names the nodes that did not answer, and what the API did not list. Errors: the archive cannot be written, or
/// the cluster cannot be asked.
pub async fn run(scope: &Scope, args: &SysdumpArgs) -> Result<ExitCode> {
    let mut fleet = Fleet::find(scope).await?;
    fleet.scope.parallel = fleet.scope.parallel.min(PARALLEL);
    let path = args.file.clone().unwrap_or_else(|| file_of(None));
    let shown = path.display();
    let file = File::create(&path).with_context(|| format!("cannot write {shown}"))?;
    let archive = RefCell::new(tar::Builder::new(file));
    let command = ["sysdump", "-f", "/dev/stdout"];
    // Each node's archive is written as it comes, so that the memory holds a bounded number of them.
    let asked = ask::each(&fleet, &command, PATIENCE, ARCHIVE, |agent, done| {
        if done.code != 0 {
            return Err(failure(&done.stderr).unwrap_or_else(|| "sysdump failed".to_owned()));
        }
        let copied = copy(&mut archive.borrow_mut(), agent, &done.stdout);
        copied.map(|parts| (Value::Null, parts, 0)).map_err(|error| format!("{error:#}"))
    })
    .await;
    let mut archive = archive.into_inner();
    let (mut missing, mut code) = (asked.absent(), asked.code());
    for (name, part) in cluster(&fleet).await {
        match part {
            Ok(content) => add(&mut archive, Path::new(name), &content)?,
            Err(error) => {
                let _ = write!(missing, "\n{name}: {error:#}");
                code = UNKNOWN;
            }
        }
    }
    add(&mut archive, Path::new("missing.txt"), missing.as_bytes())?;
    archive.finish().context("cannot finish the archive")?;
    let parts: usize = asked.answers.iter().map(|answer| answer.known).sum();
    complain(&format!(
        "wrote {shown}: {} of {}, {} missing",
        count(parts, "part"),
        count(asked.answers.len(), "node"),
        count(asked.missing.len(), "node")
    ));
    missing.trim().lines().for_each(complain);
    Ok(code.into())
}

/// Copies the parts of a node's archive into its folder, and counts them. Errors: it is none that `epguard sysdump` writes.
fn copy(to: &mut tar::Builder<File>, agent: &Agent, content: &[u8]) -> Result<usize> {
    let parts = parts::read(content)?;
    for (name, content) in &parts {
        add(to, &Path::new("nodes").join(&agent.node).join(name), content)?;
    }
    Ok(parts.len())
}

/// What only the API shows: the agents' pods, and Events about them.
async fn cluster(fleet: &Fleet) -> [(&'static str, Result<Vec<u8>>); 2] {
    let namespace = &fleet.scope.agents_namespace;
    let api: Api<Pod> = Api::namespaced(fleet.client.clone(), namespace);
    let pods = all(api, ListParams::default().labels(LABEL), Form::Json).await;
    let names: BTreeSet<String> = pods.iter().flatten().map(Pod::name_any).collect();
    let api: Api<Event> = Api::namespaced(fleet.client.clone(), namespace);
    let events = all(api, ListParams::default(), Form::Json).await;
    let about_them = |event: &Event| {
        let object = &event.involved_object;
        object.kind.as_deref() == Some("Pod") && object.name.as_ref().is_some_and(|name| names.contains(name))
    };
    let events = events.map(|all| all.into_iter().filter(about_them).collect::<Vec<_>>());
    [
        ("pods.json", pods.and_then(|all| json(&without_values(all)))),
        ("events.json", events.and_then(|all| json(&all))),
    ]
}

/// Pods without the values of environment variables, which may be credentials.
fn without_values(mut pods: Vec<Pod>) -> Vec<Pod> {
    for spec in pods.iter_mut().filter_map(|pod| pod.spec.as_mut()) {
        let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
        for variable in containers.flat_map(|container| container.env.iter_mut().flatten()) {
            variable.value = None;
        }
    }
    for pod in &mut pods {
        // `kubectl apply` writes them into an annotation, too.
        pod.metadata.annotations = None;
    }
    pods
}
