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

    /// A line of the recorder by `opened QUERY`, `refused`, `closed`, `end` of the initial events, or the type of an event.
    fn line(text: &str) -> Value {
        let event =
            |kind: &str, metadata: Value| json!({"event": {"type": kind, "object": {"metadata": metadata}}});
        match text.split_once(' ').unwrap_or((text, "")) {
            ("opened", query) => {
                json!({"watch": "opened", "url": format!("/x?watch=1&{query}"), "status": 200})
            }
            ("refused", _) => json!({"watch": "opened", "url": "/x?sendInitialEvents=true", "status": 403}),
            ("closed", _) => json!({"watch": "closed", "error": "EOF"}),
            ("end", _) => event("BOOKMARK", json!({"annotations": {"k8s.io/initial-events-end": "true"}})),
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
            let mut stream = Stream::new(Kind::Pod);
            let changes = lines.split(", ").filter_map(|text| match stream.line(&line(text)) {
                Ok(event) => event.map(|ApiEvent { change, .. }| {
                    let shown = format!("{change:?}");
                    format!("{} {}", shown.split('(').next().unwrap_or_default(), change.objects().len())
                }),
                Err(error) => Some(error.to_string()),
            });
            assert_eq!(changes.collect::<Vec<_>>().join(", "), expected, "{lines}");
        }
    }
}
