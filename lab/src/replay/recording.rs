//! A recording on disk, as a sequence of instants: the lines of each watch become the changes that
//! a client would see.

use crate::object::{self, name};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use crate::api::Kind;

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
    /// Reads a folder; its format is in `lab/traces/README.md`. `nodes.jsonl` and `node.jsonl` may
    /// be absent. An error names the file and the line that isn't what the recorder writes.
    pub fn read(dir: &Path) -> Result<Self> {
        let mut instants = Vec::new();
        for kind in WATCHED {
            let path = dir.join(format!("{}.jsonl", kind.plural()));
            if kind == Kind::Node && !path.exists() {
                let change = Change::Reset(Vec::new());
                instants.push((Duration::ZERO, What::Api(ApiEvent { kind, change })));
                continue;
            }
            let mut stream = Stream::default();
            each_line(&path, &read(&path)?, |at, line| {
                let change = stream.line(&line)?;
                instants.extend(change.map(|change| (at, What::Api(ApiEvent { kind, change }))));
                Ok(())
            })?;
        }
        let node = dir.join("node.jsonl");
        if node.exists() {
            each_line(&node, &read(&node)?, |at, line| {
                instants.push((at, What::Node(line)));
                Ok(())
            })?;
        }
        instants.sort_by_key(|(at, _)| *at);
        let dir = dir.canonicalize()?;
        let name = dir
            .file_name()
            .unwrap_or(dir.as_os_str())
            .to_string_lossy()
            .into_owned();
        Ok(Self { name, instants })
    }

    /// Whether the recording has events on the node, which show the holders of addresses.
    pub fn has_truth(&self) -> bool {
        self.instants
            .iter()
            .any(|(_, what)| matches!(what, What::Node(_)))
    }

    /// The name of one of the nodes, for an agent, which needs one.
    pub fn a_node(&self) -> Option<String> {
        let nodes = self.objects(Kind::Node);
        nodes.map(|(_, node)| object::name(node)).next()
    }

    /// Every version of every object of a kind that the watches showed, with its time.
    pub fn objects(&self, kind: Kind) -> impl Iterator<Item = (Duration, &RecordedObject)> {
        let events = self
            .instants
            .iter()
            .filter_map(move |(at, what)| match what {
                What::Api(event) if event.kind == kind => Some((*at, &event.change)),
                _ => None,
            });
        events.flat_map(|(at, change)| change.objects().iter().map(move |object| (at, object)))
    }

    /// The namespaces of all pods and Services. They were not recorded, and each must have existed.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        let objects = self.objects(Kind::Pod).chain(self.objects(Kind::Service));
        objects
            .filter_map(|(_, object)| object["metadata"]["namespace"].as_str())
            .collect()
    }

    /// `namespace/name` of every pod, by UID.
    pub fn pod_names(&self) -> BTreeMap<String, String> {
        self.objects(Kind::Pod)
            .filter_map(|(_, pod)| Some((object::uid(pod)?.to_owned(), object::name(pod))))
            .collect()
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path)
        .with_context(|| format!("{}: a recording needs this file", path.display()))
}

/// Lines of a file in the order written; where the clock went back, it stands still instead.
fn each_line(
    path: &Path,
    text: &str,
    mut take: impl FnMut(Duration, Value) -> Result<()>,
) -> Result<()> {
    let mut latest = Duration::ZERO;
    for (number, line) in (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let at = || format!("{}:{number}", path.display());
        let line: Value = serde_json::from_str(line)
            .context("not JSON")
            .with_context(at)?;
        latest = latest.max(time(&line).with_context(at)?);
        take(latest, line).with_context(at)?;
    }
    Ok(())
}

/// A parameter of the query of a URL.
fn parameter<'a>(url: &'a str, name: &str) -> Option<&'a str> {
    let (_, query) = url.split_once('?')?;
    query
        .split('&')
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

fn time(line: &Value) -> Result<Duration> {
    let millis = line["t_ms"]
        .as_f64()
        .context("a line without the number \"t_ms\"")?;
    Duration::try_from_secs_f64(millis / 1000.0)
        .with_context(|| format!("t_ms {millis} is no time since the recording began"))
}

/// An API object as recorded, shared between the world, the truth and the agent.
pub type RecordedObject = Arc<Value>;

/// The kinds that are watched, in the order of their events at one instant.
pub const WATCHED: [Kind; 4] = [Kind::Node, Kind::Service, Kind::Pod, Kind::EndpointSlice];

/// A change of one collection.
#[derive(Debug, Clone)]
pub struct ApiEvent {
    /// Which collection.
    pub kind: Kind,
    /// What happened.
    pub change: Change,
}

/// What happened to a collection or to its watch.
#[derive(Debug, Clone)]
pub enum Change {
    /// The initial events are complete: the whole collection.
    Reset(Vec<RecordedObject>),
    /// ADDED or MODIFIED.
    Applied(RecordedObject),
    /// DELETED, with the last state.
    Deleted(RecordedObject),
    /// The watch ended: the collection may be outdated until the next `Reset` or `Resumed`.
    Closed,
    /// The watch goes on where it ended, with nothing missed.
    Resumed,
}

impl Change {
    /// The objects that it shows.
    pub fn objects(&self) -> &[RecordedObject] {
        match self {
            Self::Reset(list) => list,
            Self::Applied(object) | Self::Deleted(object) => std::slice::from_ref(object),
            Self::Closed | Self::Resumed => &[],
        }
    }
}

/// The objects that the API server would list, by kind and name.
#[derive(Debug, Clone, Default)]
pub struct Listed(BTreeMap<Kind, BTreeMap<String, RecordedObject>>);

impl Listed {
    /// Takes one event.
    pub fn apply(&mut self, event: &ApiEvent) {
        let listed = self.0.entry(event.kind).or_default();
        match &event.change {
            Change::Reset(list) => {
                *listed = list.iter().map(|o| (name(o), Arc::clone(o))).collect();
            }
            Change::Applied(object) => _ = listed.insert(name(object), Arc::clone(object)),
            Change::Deleted(object) => _ = listed.remove(&name(object)),
            Change::Closed | Change::Resumed => {}
        }
    }

    /// The objects of a kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &RecordedObject> {
        self.0.get(&kind).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&RecordedObject> {
        self.0.get(&kind)?.get(name)
    }
}

/// A watch whose lines are read in order.
#[derive(Debug)]
enum Stream {
    Closed,
    /// Between opening and the bookmark that ends the initial events.
    Listing(Vec<RecordedObject>),
    Watching,
}

/// Without a line for its opening it begins with the initial events.
impl Default for Stream {
    fn default() -> Self {
        Self::Listing(Vec::new())
    }
}

impl Stream {
    /// The change that this line makes, if any. An error if the recorder does not write such lines.
    fn line(&mut self, line: &Value) -> Result<Option<Change>> {
        let Some(watch) = line.get("watch") else {
            return self.event(
                line.get("event")
                    .context("neither an \"event\" nor a \"watch\" line")?,
            );
        };
        match watch.as_str() {
            Some("opened") => self.opened(line),
            Some("closed") => Ok(self.closed()),
            _ => bail!("a watch is \"opened\" or \"closed\", not {watch}"),
        }
    }

    fn opened(&mut self, line: &Value) -> Result<Option<Change>> {
        if line.get("status").is_some_and(|status| *status != 200) {
            return Ok(self.closed());
        }
        let url = line["url"].as_str().unwrap_or("?sendInitialEvents=true");
        if parameter(url, "sendInitialEvents") == Some("true") {
            let was_open = self.closed();
            *self = Self::default();
            return Ok(was_open);
        }
        ensure!(
            parameter(url, "resourceVersion").is_some_and(|version| !matches!(version, "" | "0")),
            "this watch neither goes on from a resourceVersion nor asks for the initial events \
             (record with sendInitialEvents=true): {url}"
        );
        *self = Self::Watching;
        Ok(Some(Change::Resumed))
    }

    fn closed(&mut self) -> Option<Change> {
        let was = std::mem::replace(self, Self::Closed);
        matches!(was, Self::Watching).then_some(Change::Closed)
    }

    fn event(&mut self, event: &Value) -> Result<Option<Change>> {
        let kind = event["type"]
            .as_str()
            .context("an event without a \"type\"")?;
        let object = event
            .get("object")
            .with_context(|| format!("a {kind} event without an \"object\""))?;
        let deleted = match kind {
            "ERROR" => return Ok(self.closed()),
            "BOOKMARK" => return Ok(self.bookmark(object)),
            "ADDED" | "MODIFIED" => false,
            "DELETED" => true,
            _ => bail!("{kind:?} is no type of a watch event"),
        };
        ensure!(
            object["metadata"]["name"].is_string(),
            "a {kind} event whose object has no metadata.name"
        );
        let object = Arc::new(object.clone());
        match self {
            Self::Closed => bail!("a {kind} event on a closed watch"),
            Self::Watching if deleted => Ok(Some(Change::Deleted(object))),
            Self::Watching => Ok(Some(Change::Applied(object))),
            Self::Listing(_) if deleted => bail!("a DELETED event among the initial events"),
            Self::Listing(list) => {
                list.push(object);
                Ok(None)
            }
        }
    }

    fn bookmark(&mut self, object: &Value) -> Option<Change> {
        let ends = object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
        let Self::Listing(list) = self else {
            return None;
        };
        let list = ends.then(|| std::mem::take(list))?;
        *self = Self::Watching;
        Some(Change::Reset(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bad_line_is_named_with_file_and_line() {
        let event = "{\"t_ms\": 1, \"event\": {\"type\": \"EXPLODED\", \"object\": {}}}";
        for (lines, expected) in [
            ("\n{\"t_ms\":", "pods.jsonl:2: not JSON"),
            (
                "{\"t_ms\": \"noon\"}",
                "pods.jsonl:1: a line without the number \"t_ms\"",
            ),
            ("{\"t_ms\": -1}", "pods.jsonl:1: t_ms -1 is no time"),
            (
                "{\"t_ms\": 1}",
                "pods.jsonl:1: neither an \"event\" nor a \"watch\" line",
            ),
            (event, "pods.jsonl:1: \"EXPLODED\" is no type"),
        ] {
            let mut stream = Stream::default();
            let take = |_, line| stream.line(&line).map(drop);
            let error = each_line(Path::new("pods.jsonl"), lines, take).unwrap_err();
            assert!(format!("{error:#}").starts_with(expected), "{error:#}");
        }
    }

    #[test]
    fn the_files_of_nodes_may_be_absent_and_no_other() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        for file in ["services.jsonl", "pods.jsonl", "endpointslices.jsonl"] {
            let error = Recording::read(folder).unwrap_err();
            assert!(
                error
                    .to_string()
                    .ends_with(&format!("{file}: a recording needs this file")),
                "{error}"
            );
            fs::write(folder.join(file), "").unwrap();
        }
        let recording = Recording::read(folder).unwrap();
        assert!(!recording.has_truth());
        // An empty list of nodes.
        assert_eq!(recording.instants.len(), 1);
        assert_eq!(recording.a_node(), None);
    }

    /// A line of the recorder by `opened QUERY`, `refused`, `closed`, `end` of the initial events,
    /// or the type of an event.
    fn line(text: &str) -> Value {
        let event = |kind: &str, metadata: Value| json!({"event": {"type": kind, "object": {"metadata": metadata}}});
        match text.split_once(' ').unwrap_or((text, "")) {
            ("opened", query) => {
                json!({"watch": "opened", "url": format!("/x?watch=1&{query}"), "status": 200})
            }
            ("refused", _) => {
                json!({"watch": "opened", "url": "/x?sendInitialEvents=true", "status": 403})
            }
            ("closed", _) => json!({"watch": "closed", "error": "EOF"}),
            ("end", _) => event(
                "BOOKMARK",
                json!({"annotations": {"k8s.io/initial-events-end": "true"}}),
            ),
            (kind, _) => event(kind, json!({"name": "p"})),
        }
    }

    #[test]
    fn lines_become_the_changes_that_a_client_would_see() {
        let nowhere = "this watch neither goes on from a resourceVersion nor asks for the initial events \
                       (record with sendInitialEvents=true): /x?watch=1&resourceVersion=0";
        for (lines, expected) in [
            (
                "opened sendInitialEvents=true, ADDED, ADDED, end, MODIFIED, BOOKMARK, DELETED",
                "Reset 2, Applied 1, Deleted 1",
            ),
            (
                "opened sendInitialEvents=true, end, closed, closed, opened resourceVersion=12, ERROR, \
                 opened sendInitialEvents=true, ADDED, end",
                "Reset 0, Closed 0, Resumed 0, Closed 0, Reset 1",
            ),
            ("refused, ADDED", "a ADDED event on a closed watch"),
            ("opened resourceVersion=0", nowhere),
        ] {
            let mut stream = Stream::default();
            let changes = lines
                .split(", ")
                .filter_map(|text| match stream.line(&line(text)) {
                    Ok(change) => change.map(|change| {
                        let shown = format!("{change:?}");
                        format!(
                            "{} {}",
                            shown.split('(').next().unwrap_or_default(),
                            change.objects().len()
                        )
                    }),
                    Err(error) => Some(error.to_string()),
                });
            assert_eq!(changes.collect::<Vec<_>>().join(", "), expected, "{lines}");
        }
    }
}
