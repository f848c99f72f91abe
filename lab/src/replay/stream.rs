//! Turns the lines of one recorded watch into the changes that a client would see.

use crate::object::name;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

pub use crate::api::Kind;

/// An API object as recorded, shared between the world, the truth and the agent.
pub type Object = Arc<Value>;

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
    Reset(Vec<Object>),
    /// ADDED or MODIFIED.
    Applied(Object),
    /// DELETED, with the last state.
    Deleted(Object),
    /// The watch ended: the collection may be outdated until the next `Reset` or `Resumed`.
    Closed,
    /// The watch goes on where it ended, with nothing missed.
    Resumed,
}

impl Change {
    /// The objects that it shows.
    pub fn objects(&self) -> &[Object] {
        match self {
            Self::Reset(list) => list,
            Self::Applied(object) | Self::Deleted(object) => std::slice::from_ref(object),
            Self::Closed | Self::Resumed => &[],
        }
    }
}

/// The objects that the API server would list, by kind and name.
#[derive(Debug, Clone, Default)]
pub struct Listed(BTreeMap<Kind, BTreeMap<String, Object>>);

impl Listed {
    /// Takes one event.
    pub fn apply(&mut self, event: &ApiEvent) {
        let listed = self.0.entry(event.kind).or_default();
        match &event.change {
            Change::Reset(list) => *listed = list.iter().map(|o| (name(o), Arc::clone(o))).collect(),
            Change::Applied(object) => _ = listed.insert(name(object), Arc::clone(object)),
            Change::Deleted(object) => _ = listed.remove(&name(object)),
            Change::Closed | Change::Resumed => {}
        }
    }

    /// The objects of a kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.0.get(&kind).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&Object> {
        self.0.get(&kind)?.get(name)
    }
}

/// Reads a watch's lines in order.
#[derive(Debug)]
pub struct Stream {
    kind: Kind,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed,
    /// Between opening and the bookmark that ends the initial events.
    Listing(Vec<Object>),
    Watching,
}

impl Stream {
    /// A stream without a line for its opening begins with the initial events.
    pub fn new(kind: Kind) -> Self {
        let state = State::Listing(Vec::new());
        Self { kind, state }
    }

    /// The change that this line makes, if any. An error if the recorder does not write such lines.
    pub fn line(&mut self, line: &Value) -> Result<Option<ApiEvent>> {
        let change = if let Some(watch) = line.get("watch") {
            match watch.as_str() {
                Some("opened") => self.opened(line)?,
                Some("closed") => self.closed(),
                _ => bail!("a watch is \"opened\" or \"closed\", not {watch}"),
            }
        } else {
            self.event(line.get("event").context("neither an \"event\" nor a \"watch\" line")?)?
        };
        let kind = self.kind;
        Ok(change.map(|change| ApiEvent { kind, change }))
    }

    fn opened(&mut self, line: &Value) -> Result<Option<Change>> {
        if line.get("status").is_some_and(|status| *status != 200) {
            return Ok(self.closed());
        }
        let url = line["url"].as_str().unwrap_or("?sendInitialEvents=true");
        let parameter = |name: &str| {
            let query = url.split_once('?').map_or("", |(_, query)| query);
            query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
        };
        if parameter("sendInitialEvents") == Some("true") {
            let was_open = self.closed();
            self.state = State::Listing(Vec::new());
            return Ok(was_open);
        }
        ensure!(
            parameter("resourceVersion").is_some_and(|version| !matches!(version, "" | "0")),
            "this watch neither goes on from a resourceVersion nor asks for the initial events \
             (record with sendInitialEvents=true): {url}"
        );
        self.state = State::Watching;
        Ok(Some(Change::Resumed))
    }

    fn closed(&mut self) -> Option<Change> {
        let was = std::mem::replace(&mut self.state, State::Closed);
        matches!(was, State::Watching).then_some(Change::Closed)
    }

    fn event(&mut self, event: &Value) -> Result<Option<Change>> {
        let kind = event["type"].as_str().context("an event without a \"type\"")?;
        let object = event.get("object").with_context(|| format!("a {kind} event without an \"object\""))?;
        let deleted = match kind {
            "ERROR" => return Ok(self.closed()),
            "BOOKMARK" => return Ok(self.bookmark(object)),
            "ADDED" | "MODIFIED" => false,
            "DELETED" => true,
            _ => bail!("{kind:?} is no type of a watch event"),
        };
        ensure!(object["metadata"]["name"].is_string(), "a {kind} event whose object has no metadata.name");
        let object = Arc::new(object.clone());
        match &mut self.state {
            State::Closed => bail!("a {kind} event on a closed watch"),
            State::Watching if deleted => Ok(Some(Change::Deleted(object))),
            State::Watching => Ok(Some(Change::Applied(object))),
            State::Listing(_) if deleted => bail!("a DELETED event among the initial events"),
            State::Listing(list) => {
                list.push(object);
                Ok(None)
            }
        }
    }

    fn bookmark(&mut self, object: &Value) -> Option<Change> {
        let ends = object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
        match &mut self.state {
            State::Listing(list) if ends => {
                let list = std::mem::take(list);
                self.state = State::Watching;
                Some(Change::Reset(list))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn changes(lines: &[Value]) -> Vec<String> {
        let mut stream = Stream::new(Kind::Pod);
        let changes = lines.iter().filter_map(|line| stream.line(line).expect("a line of the recorder"));
        changes
            .map(|event| match event.change {
                Change::Reset(list) => format!("reset {}", list.len()),
                Change::Applied(_) => "applied".into(),
                Change::Deleted(_) => "deleted".into(),
                Change::Closed => "closed".into(),
                Change::Resumed => "resumed".into(),
            })
            .collect()
    }

    fn opened(query: &str) -> Value {
        json!({"t_ms": 0, "watch": "opened", "url": format!("/api/v1/pods?watch=1&{query}"), "status": 200})
    }

    fn event(kind: &str) -> Value {
        json!({"t_ms": 0, "event": {"type": kind, "object": {"metadata": {"name": "p"}}}})
    }

    fn end() -> Value {
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        json!({"t_ms": 0, "event": {"type": "BOOKMARK", "object": {"metadata": {"annotations": annotations}}}})
    }

    #[test]
    fn initial_events_become_one_list_at_the_bookmark_that_ends_them() {
        let lines = [
            opened("sendInitialEvents=true"),
            event("ADDED"),
            event("ADDED"),
            end(),
            event("MODIFIED"),
            event("BOOKMARK"),
            event("DELETED"),
        ];
        assert_eq!(changes(&lines), ["reset 2", "applied", "deleted"]);
    }

    #[test]
    fn an_error_closes_the_watch_and_a_new_one_lists_again() {
        let lines = [
            opened("sendInitialEvents=true"),
            end(),
            json!({"t_ms": 0, "watch": "closed", "error": "EOF"}),
            json!({"t_ms": 0, "watch": "closed", "error": "refused"}),
            opened("resourceVersion=12"),
            json!({"t_ms": 0, "event": {"type": "ERROR", "object": {"code": 410}}}),
            opened("sendInitialEvents=true"),
            event("ADDED"),
            end(),
        ];
        assert_eq!(changes(&lines), ["reset 0", "closed", "resumed", "closed", "reset 1"]);
    }

    #[test]
    fn a_watch_that_was_refused_stays_closed() {
        let refused =
            json!({"t_ms": 0, "watch": "opened", "url": "/x?sendInitialEvents=true", "status": 403});
        let mut stream = Stream::new(Kind::Pod);
        assert!(stream.line(&refused).unwrap().is_none());
        let error = stream.line(&event("ADDED")).unwrap_err().to_string();
        assert_eq!(error, "a ADDED event on a closed watch");
    }

    #[test]
    fn a_watch_from_nowhere_is_an_error() {
        let error = Stream::new(Kind::Pod).line(&opened("resourceVersion=0")).unwrap_err();
        assert!(error.to_string().contains("sendInitialEvents"), "{error}");
    }
}
