//! What the API server stores, and what its streams have shown of it.
//!
//! Every change has a number of its own beside its resourceVersion, which a restore may repeat.

use super::*;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::watch;

#[derive(Clone, Debug)]
pub struct Event {
    pub number: u64,
    pub version: u64,
    /// ADDED, MODIFIED or DELETED; none if the whole kind was replaced.
    pub change: Option<&'static str>,
    pub key: String,
    pub json: String,
    pub at: Instant,
}

#[derive(Clone, Debug)]
pub struct Stored {
    pub number: u64,
    pub json: String,
}

#[derive(Clone, Default, Debug)]
pub struct Kind {
    pub objects: BTreeMap<String, Stored>,
    pub log: Vec<Event>,
    /// How late events are.
    pub lag: Duration,
    /// Streams show nothing.
    pub stalled: bool,
    /// Streams that began before this number are over.
    pub epoch: u64,
    /// The last change that the agent was sent, in a list or by its stream.
    pub delivered: u64,
    /// Changes that something else has shown the agent and that its stream lacks, ascending, each
    /// since when.
    pub shown_elsewhere: VecDeque<(u64, Instant)>,
}

#[derive(Default, Debug)]
pub struct Store {
    pub kinds: [Kind; 5],
    pub revision: u64,
    /// History before this is gone.
    pub compacted: u64,
    pub up: bool,
    number: u64,
    backup: Option<([BTreeMap<String, Stored>; 5], u64)>,
    /// The revision went back once, and stays behind what was shown before.
    went_back: bool,
    changed: watch::Sender<u64>,
}

/// By how much a restore tool raises the revision, and how much else is written after a backup.
const BUMP: u64 = 1_000_000;

impl Store {
    /// Whether anything is not shown as soon as it happens.
    pub fn is_late(&self) -> bool {
        !self.up
            || self
                .kinds
                .iter()
                .any(|kind| kind.stalled || kind.lag > Duration::ZERO)
    }

    pub fn new() -> Self {
        Self {
            revision: 100,
            up: true,
            ..Self::default()
        }
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Wakes all streams.
    pub fn wake(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// The kind at a path, across namespaces or in one.
    pub fn kind_at(path: &str) -> Option<(usize, Option<String>)> {
        let at = |path: &str| PATHS.iter().position(|known| *known == path);
        if let Some(kind) = at(path) {
            return Some((kind, None));
        }
        let (root, rest) = path.split_once("/namespaces/")?;
        let (namespace, plural) = rest.split_once('/')?;
        Some((at(&format!("{root}/{plural}"))?, Some(namespace.to_owned())))
    }

    /// Creates or replaces an object.
    pub fn put(&mut self, kind: usize, key: &str, object: Value) {
        let known = self.kinds[kind].objects.contains_key(key);
        let change = if known { "MODIFIED" } else { "ADDED" };
        let (number, json) = self.note(kind, change, key, object);
        self.kinds[kind]
            .objects
            .insert(key.to_owned(), Stored { number, json });
    }

    /// Removes an object; this is its last state.
    pub fn remove(&mut self, kind: usize, key: &str, object: Value) {
        if self.kinds[kind].objects.remove(key).is_some() {
            self.note(kind, "DELETED", key, object);
        }
    }

    fn note(
        &mut self,
        kind: usize,
        change: &'static str,
        key: &str,
        mut object: Value,
    ) -> (u64, String) {
        self.revision += 1;
        self.number += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let json = object.to_string();
        let number = self.number;
        let version = self.revision;
        self.kinds[kind].log.push(Event {
            number,
            version,
            change: Some(change),
            key: key.to_owned(),
            json: json.clone(),
            at: Instant::now(),
        });
        self.wake();
        (number, json)
    }

    pub fn break_streams(&mut self, kind: usize) {
        self.kinds[kind].epoch += 1;
        self.wake();
    }

    pub fn break_all(&mut self) {
        (0..self.kinds.len()).for_each(|kind| self.break_streams(kind));
    }

    pub fn compact(&mut self) {
        // Other kinds are written all the time.
        self.revision += 1;
        self.compacted = self.revision;
    }

    pub fn back_up(&mut self) {
        let objects = [0, 1, 2, 3, 4].map(|kind| self.kinds[kind].objects.clone());
        self.backup = Some((objects, self.revision));
        if !self.went_back {
            // Stands for other writes before a restore, so that a revision that goes back stays
            // behind for long.
            self.revision += BUMP / 10;
        }
    }

    /// Replaces everything by the backup. The revision goes on far beyond, or back, which it does
    /// once. False without a backup.
    pub fn restore(&mut self, back: bool) -> bool {
        let Some((objects, revision)) = self.backup.clone() else {
            return false;
        };
        if back && !self.went_back {
            self.revision = revision;
            self.went_back = true;
        } else {
            self.revision += BUMP;
        }
        self.compacted = self.revision;
        for (kind, objects) in objects.into_iter().enumerate() {
            self.number += 1;
            let event = Event {
                number: self.number,
                version: self.revision,
                change: None,
                key: String::new(),
                json: String::new(),
                at: Instant::now(),
            };
            let kind = &mut self.kinds[kind];
            kind.objects = objects;
            for event in &mut kind.log {
                // Resumed streams never show what was before.
                event.version = 0;
            }
            kind.log.push(event);
        }
        self.break_all();
        true
    }

    /// What the agent was not sent yet of an object of a kind; the oldest change.
    pub fn pending(&self, kind: usize, matches: impl Fn(&str) -> bool) -> Option<Instant> {
        let kind = &self.kinds[kind];
        let unsent = kind
            .log
            .iter()
            .filter(|event| event.number > kind.delivered);
        unsent
            .filter(|event| event.change.is_none() || matches(&event.key))
            .map(|event| event.at)
            .min()
    }

    /// Since when the agent was shown something that its stream lacks.
    pub fn behind_since(&self, kind: usize) -> Option<Instant> {
        let kind = &self.kinds[kind];
        let lacking = kind
            .shown_elsewhere
            .iter()
            .find(|(number, _)| *number > kind.delivered);
        lacking.map(|(_, since)| *since)
    }
}

impl Kind {
    /// The agent was sent everything up to a change.
    pub fn deliver(&mut self, number: u64) {
        self.delivered = self.delivered.max(number);
        self.shown_elsewhere.retain(|(shown, _)| *shown > number);
    }

    /// Something else than the stream has shown a change.
    pub fn show_elsewhere(&mut self, number: u64) {
        let newest = self
            .shown_elsewhere
            .back()
            .map_or(self.delivered, |(newest, _)| *newest);
        if number > newest.max(self.delivered) {
            self.shown_elsewhere.push_back((number, Instant::now()));
        }
    }

    /// The number of the last change.
    pub fn last(&self) -> u64 {
        self.log.last().map_or(0, |event| event.number)
    }
}
