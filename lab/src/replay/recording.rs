//! A recording on disk, as a sequence of instants.

use super::stream::{ApiEvent, Change, Kind, Object, Stream, WATCHED};
use crate::object;
use anyhow::{Context, Result};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    time::Duration,
};

/// Everything recorded in one folder.
#[derive(Debug)]
pub struct Recording {
    /// The folder's name.
    pub name: String,
    /// Ordered by time; at the same instant nodes come before Services, Pods and slices.
    pub instants: Vec<(Duration, What)>,
}

/// An event at an instant.
#[derive(Debug)]
pub enum What {
    /// An event that an agent would have received.
    Api(ApiEvent),
    /// An event on the node: a line of `node.jsonl`.
    Node(Value),
}

impl Recording {
    /// Reads a folder; its format is in `lab/traces/README.md`. `nodes.jsonl` and `node.jsonl` may be absent.
    /// An error names the file and the line that isn't what the recorder writes.
    pub fn read(dir: &Path) -> Result<Self> {
        let mut instants = Vec::new();
        for kind in WATCHED {
            let path = dir.join(format!("{}.jsonl", kind.plural()));
            if kind == Kind::Node && !path.exists() {
                let change = Change::Reset(Vec::new());
                instants.push((Duration::ZERO, What::Api(ApiEvent { kind, change })));
                continue;
            }
            let mut stream = Stream::new(kind);
            each_line(&path, open(&path)?, |at, line| {
                instants.extend(stream.line(&line)?.map(|event| (at, What::Api(event))));
                Ok(())
            })?;
        }
        let node = dir.join("node.jsonl");
        if node.exists() {
            each_line(&node, open(&node)?, |at, line| {
                instants.push((at, What::Node(line)));
                Ok(())
            })?;
        }
        instants.sort_by_key(|(at, _)| *at);
        let name = dir
            .canonicalize()?
            .file_name()
            .map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into());
        Ok(Self { name, instants })
    }

    /// Whether the recording has events on the node, which show the holders of addresses.
    pub fn has_truth(&self) -> bool {
        self.instants.iter().any(|(_, what)| matches!(what, What::Node(_)))
    }

    /// The name of one of the nodes, for an agent, which needs one.
    pub fn a_node(&self) -> Option<String> {
        let nodes = self.objects(Kind::Node);
        nodes.map(|(_, node)| object::name(node)).next()
    }

    /// Every version of every object of a kind that the watches showed, with its time.
    pub fn objects(&self, kind: Kind) -> impl Iterator<Item = (Duration, &Object)> {
        let events = self.instants.iter().filter_map(move |(at, what)| match what {
            What::Api(event) if event.kind == kind => Some((*at, &event.change)),
            _ => None,
        });
        events.flat_map(|(at, change)| change.objects().iter().map(move |object| (at, object)))
    }

    /// The namespaces of all pods and Services. They were not recorded, and each must have existed.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        let objects = self.objects(Kind::Pod).chain(self.objects(Kind::Service));
        objects.filter_map(|(_, object)| object["metadata"]["namespace"].as_str()).collect()
    }

    /// `namespace/name` of every pod, by UID.
    pub fn pod_names(&self) -> BTreeMap<String, String> {
        self.objects(Kind::Pod)
            .filter_map(|(_, pod)| Some((object::uid(pod)?.to_owned(), object::name(pod))))
            .collect()
    }
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let file =
        File::open(path).with_context(|| format!("{}: a recording needs this file", path.display()))?;
    Ok(BufReader::new(file))
}

/// Lines of a file in the order written; where the clock went back, it stands still instead.
fn each_line(
    path: &Path,
    text: impl BufRead,
    mut take: impl FnMut(Duration, Value) -> Result<()>,
) -> Result<()> {
    let mut latest = Duration::ZERO;
    for (index, line) in text.lines().enumerate() {
        let at = || format!("{}:{}", path.display(), index + 1);
        let line = line.with_context(at)?;
        if line.trim().is_empty() {
            continue;
        }
        let line: Value = serde_json::from_str(&line).context("not JSON").with_context(at)?;
        latest = latest.max(time(&line).with_context(at)?);
        take(latest, line).with_context(at)?;
    }
    Ok(())
}

fn time(line: &Value) -> Result<Duration> {
    let millis = line["t_ms"].as_f64().context("a line without the number \"t_ms\"")?;
    Duration::try_from_secs_f64(millis / 1000.0)
        .with_context(|| format!("t_ms {millis} is no time since the recording began"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_is_named_with_file_and_line() {
        let event = "{\"t_ms\": 1, \"event\": {\"type\": \"EXPLODED\", \"object\": {}}}";
        for (lines, expected) in [
            ("\n{\"t_ms\":", "pods.jsonl:2: not JSON"),
            ("{\"t_ms\": \"noon\"}", "pods.jsonl:1: a line without the number \"t_ms\""),
            ("{\"t_ms\": -1}", "pods.jsonl:1: t_ms -1 is no time"),
            ("{\"t_ms\": 1}", "pods.jsonl:1: neither an \"event\" nor a \"watch\" line"),
            (event, "pods.jsonl:1: \"EXPLODED\" is no type"),
        ] {
            let mut stream = Stream::new(Kind::Pod);
            let take = |_, line| stream.line(&line).map(drop);
            let error = each_line(Path::new("pods.jsonl"), lines.as_bytes(), take).unwrap_err();
            assert!(format!("{error:#}").starts_with(expected), "{error:#}");
        }
    }

    #[test]
    fn the_files_of_nodes_may_be_absent_and_no_other() {
        let folder = std::env::temp_dir().join(crate::files::own_name("epguard-replay-"));
        std::fs::create_dir_all(&folder).unwrap();
        for file in ["services.jsonl", "pods.jsonl", "endpointslices.jsonl"] {
            let error = Recording::read(&folder).unwrap_err();
            assert!(error.to_string().ends_with(&format!("{file}: a recording needs this file")), "{error}");
            File::create(folder.join(file)).unwrap();
        }
        let recording = Recording::read(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(!recording.has_truth());
        // An empty list of nodes.
        assert_eq!(recording.instants.len(), 1);
        assert_eq!(recording.a_node(), None);
    }
}
