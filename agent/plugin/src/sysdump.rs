//! `kubectl epguard sysdump`: one archive with the archives of all nodes, and what only the API
//! shows.

use super::agents::{Agent, Fleet, LABEL, list_objects};
use super::answers::UNKNOWN;
use super::ask::{failure, run_on_nodes};
use super::scope::{FleetOutput, Scope};
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use epguard_client::answers::sysdump::{FOLDER, add_part, default_path, pretty_json};
use epguard_client::shared::output::{complain, count};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Seconds to wait for a node: it reads all of its tables.
pub const PATIENCE: u64 = 60;
/// Most octets of a node's archive. It has some MB.
const ARCHIVE: u64 = 64 << 20;
/// The most nodes that are asked at a time, as the memory holds their archives.
const PARALLEL: u16 = 8;
/// The most parts of a node's archive. It has about thirty.
const PARTS: usize = 100;
/// The longest name of a part.
const NAME: usize = 80;

/// Options of `kubectl epguard sysdump`.
#[derive(Debug, Args)]
#[command(after_help = "\
The archive has a folder for each node, with the parts of epguard sysdump, and the agents' pods and \
Events. It contains names of pods and Services, IP addresses, routes, interfaces and stale flows, \
and no credentials.

Without --timeout it waits 60 s for each node, and 30 s for each answer of the API server.

Examples:
  kubectl epguard sysdump
  kubectl epguard sysdump --node worker-1 -f worker-1.tar")]
pub struct FleetSysdumpArgs {
    /// The archive [default: epguard-sysdump-TIME.tar]
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Writes the archive. Its `missing.txt` names the nodes that did not answer, and what the API did
/// not list. Errors: the archive cannot be written.
pub async fn run(mut fleet: Fleet, args: &FleetSysdumpArgs) -> Result<ExitCode> {
    fleet.scope.parallel = fleet.scope.parallel.min(PARALLEL);
    let path = args.file.clone().unwrap_or_else(|| default_path(None));
    let shown = path.display();
    let file = File::create(&path).with_context(|| format!("cannot write {shown}"))?;
    let archive = RefCell::new(tar::Builder::new(file));
    let command = ["sysdump", "-f", "/dev/stdout"];
    // Each node's archive is written as it comes, so that the memory holds a bounded number of
    // them.
    let asked = run_on_nodes(&fleet, &command, PATIENCE, ARCHIVE, |agent, done| {
        if done.code != 0 {
            return Err(failure(&done.stderr).unwrap_or_else(|| "sysdump failed".to_owned()));
        }
        let copied = copy_parts(&mut archive.borrow_mut(), agent, &done.stdout);
        let count = copied.map_err(|error| format!("{error:#}"))?;
        Ok((Value::Null, count, 0))
    })
    .await;
    let mut archive = archive.into_inner();
    let mut missing = asked.absent();
    let mut code = asked.code();
    for (name, part) in parts_of_the_api(&fleet).await {
        match part {
            Ok(content) => add_part(&mut archive, Path::new(name), &content)?,
            Err(error) => {
                let _ = write!(missing, "\n{name}: {error:#}");
                code = UNKNOWN;
            }
        }
    }
    add_part(&mut archive, Path::new("missing.txt"), missing.as_bytes())?;
    archive.finish().context("cannot finish the archive")?;
    let parts: usize = asked.answers.iter().map(|answer| answer.known).sum();
    complain(&format!(
        "wrote {shown}: {} of {}, {} missing",
        count(parts, "part"),
        count(asked.answers.len(), "node"),
        count(asked.missing.len(), "node")
    ));
    for line in missing.trim().lines() {
        complain(line);
    }
    Ok(code.into())
}

/// Copies the parts of a node's archive into its folder. Returns how many there are.
fn copy_parts(archive: &mut tar::Builder<File>, agent: &Agent, content: &[u8]) -> Result<usize> {
    let folder = Path::new("nodes").join(&agent.node);
    let parts = parts_of_archive(content)?;
    for (name, part) in &parts {
        add_part(archive, &folder.join(name), part)?;
    }
    Ok(parts.len())
}

/// Names and contents of a node's parts. A node must not fill the reader's disk, nor write outside
/// of its folder. Errors: the content is no archive, or has something else than a bounded number of
/// plain files.
pub fn parts_of_archive(content: &[u8]) -> Result<BTreeMap<String, &[u8]>> {
    let mut parts = BTreeMap::new();
    let mut archive = tar::Archive::new(content);
    // Headers are taken as they stand, without those of long names or sparse files, which have a
    // size of their own.
    for entry in archive.entries().context("no archive came")?.raw(true) {
        let entry = entry.context("its archive is broken")?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = entry.header().entry_type();
        ensure!(
            kind.is_file(),
            "its archive has {name:?}, which is no plain file"
        );
        let name = match name
            .strip_prefix(FOLDER)
            .and_then(|name| name.strip_prefix('/'))
        {
            Some(name) if is_plain(name) => name.to_owned(),
            _ => bail!("its archive has {name:?}, which is no part of a sysdump"),
        };
        let from = usize::try_from(entry.raw_file_position())?;
        let to = from.saturating_add(usize::try_from(entry.size())?);
        let part = content.get(from..to).context("its archive is cut off")?;
        ensure!(
            parts.len() < PARTS,
            "its archive has more than {PARTS} parts"
        );
        if let Some(earlier) = parts.insert(name, part) {
            bail!("its archive has a part of {} octets twice", earlier.len());
        }
    }
    Ok(parts)
}

/// True for a short name of letters, digits, `-`, `_` and `.`.
fn is_plain(name: &str) -> bool {
    let mut octets = name.bytes();
    !name.is_empty()
        && name.len() <= NAME
        && !name.starts_with('.')
        && octets.all(|octet| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet))
}

/// What only the API shows: the agents' pods, and Events about them.
async fn parts_of_the_api(fleet: &Fleet) -> [(&'static str, Result<Vec<u8>>); 2] {
    // The parts are documents: their texts are exact.
    let exact = Scope {
        output: FleetOutput::Json,
        ..fleet.scope.clone()
    };
    let namespace = &exact.agents_namespace;
    let api: Api<Pod> = Api::namespaced(fleet.client.clone(), namespace);
    let pods = list_objects(api, ListParams::default().labels(LABEL), &exact).await;
    let names: BTreeSet<String> = pods.iter().flatten().map(Pod::name_any).collect();
    let api: Api<Event> = Api::namespaced(fleet.client.clone(), namespace);
    let events = list_objects(api, ListParams::default(), &exact)
        .await
        .and_then(|mut all: Vec<Event>| {
            all.retain(|event| {
                event
                    .involved_object
                    .name
                    .as_ref()
                    .is_some_and(|name| names.contains(name))
            });
            pretty_json(&all)
        });
    [
        (
            "pods.json",
            pods.and_then(|all| pretty_json(&without_secrets(all))),
        ),
        ("events.json", events),
    ]
}

/// Pods without environment variables, whose values may be credentials, and without annotations, to
/// which `kubectl apply` writes them.
fn without_secrets(mut pods: Vec<Pod>) -> Vec<Pod> {
    for pod in &mut pods {
        pod.metadata.annotations = None;
        let Some(spec) = &mut pod.spec else { continue };
        let all = spec
            .containers
            .iter_mut()
            .chain(spec.init_containers.iter_mut().flatten());
        all.for_each(|container| container.env = None);
    }
    pods
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tar::{Builder, EntryType, Header};

    pub fn archive(entries: &[(&str, EntryType)]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (name, kind) in entries {
            let mut header = Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(4);
            header.set_cksum();
            tar.append(&header, &b"here"[..]).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn only_plain_files_of_the_folder_are_parts() {
        let good = archive(&[
            ("epguard-sysdump/a.txt", EntryType::Regular),
            ("epguard-sysdump/b.txt", EntryType::Regular),
        ]);
        assert_eq!(
            parts_of_archive(&good)
                .unwrap()
                .into_iter()
                .collect::<Vec<_>>(),
            [
                ("a.txt".to_owned(), &b"here"[..]),
                ("b.txt".to_owned(), b"here")
            ]
        );
        for (name, kind) in [
            ("epguard-sysdump/a.txt", EntryType::GNUSparse),
            ("epguard-sysdump/a.txt", EntryType::Symlink),
            ("epguard-sysdump/a.txt", EntryType::Link),
            ("epguard-sysdump/a.txt", EntryType::GNULongName),
            ("epguard-sysdump/a.txt", EntryType::XHeader),
            ("epguard-sysdump/a.txt", EntryType::Directory),
            ("epguard-sysdump/../../a.txt", EntryType::Regular),
            ("epguard-sysdump/.a", EntryType::Regular),
            ("epguard-sysdump/\u{1b}", EntryType::Regular),
            ("/etc/passwd", EntryType::Regular),
            ("a.txt", EntryType::Regular),
        ] {
            assert!(
                parts_of_archive(&archive(&[(name, kind)])).is_err(),
                "{name} {kind:?}"
            );
        }
    }

    #[test]
    fn an_archive_has_few_parts_and_each_once() {
        let names: Vec<String> = (0..=PARTS)
            .map(|number| format!("epguard-sysdump/{number}"))
            .collect();
        let entries: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), EntryType::Regular))
            .collect();
        assert!(parts_of_archive(&archive(&entries[..PARTS])).is_ok());
        assert!(parts_of_archive(&archive(&entries)).is_err());
        assert!(parts_of_archive(&archive(&[entries[0], entries[0]])).is_err());
        let whole = archive(&entries[..1]);
        assert!(parts_of_archive(&whole[..514]).is_err());
        assert!(parts_of_archive(b"no archive").is_err());
    }
}
