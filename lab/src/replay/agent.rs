//! The agent's state machine, fed with a recording.

use super::oracle::{Denial, Shape};
use super::recording::{ApiEvent, Change, Kind, Listed, RecordedObject, Recording, WATCHED};
use super::world::Key;
use anyhow::{Result, bail};
use epguard_common::{Mode, Uid, UidState};
use epguard_core::facts::{self, Fact, Namespace, NodeSeen, Watched};
use epguard_core::state::{Ipam, Ranges, Settings, State};
use std::time::Duration;

/// Adapter for `epguard_core::state::State`.
#[derive(Debug)]
pub struct ReplayedAgent {
    /// The state machine itself.
    pub state: State,
    listed: Listed,
}

/// The kind in recordings; the other collections are taken to be empty.
fn recorded(watched: Watched) -> Option<Kind> {
    watched
        .to_string()
        .parse()
        .ok()
        .filter(|kind| WATCHED.contains(kind))
}

impl ReplayedAgent {
    /// An agent on one of the recording's nodes.
    pub fn new(recording: &Recording) -> Self {
        let settings = Settings {
            node: recording.a_node().unwrap_or_default(),
            ipam: Ipam::Auto,
            ranges: Ranges::default(),
        };
        let namespaces = recording.namespaces().into_iter().map(|name| Namespace {
            name: name.into(),
            bound: Mode::Enforce,
        });
        let mut state = State::new(settings);
        for watched in Watched::ALWAYS
            .into_iter()
            .filter(|watched| recorded(*watched).is_none())
        {
            state.apply(Duration::ZERO, watched.empty());
        }
        state.apply(
            Duration::ZERO,
            Fact::Namespace(facts::Change::Reset(namespaces.collect())),
        );
        Self {
            state,
            listed: Listed::default(),
        }
    }

    /// Takes one event; `now` is the time since the recording began. An error if an agent could not
    /// take the object.
    pub fn feed(&mut self, now: Duration, event: &ApiEvent) -> Result<()> {
        self.listed.apply(event);
        self.apply(now, event)?;
        self.state.tick(now);
        self.confirm(now)
    }

    /// Everything denied now.
    pub fn denials(&self) -> Vec<Denial> {
        let all = self.state.denials();
        let in_force =
            all.filter(|(service, endpoint, _)| !self.state.is_stopped(service, endpoint));
        let denials = in_force.map(|(service, endpoint, proven)| Denial {
            key: Key {
                service: service.to_string(),
                ip: endpoint.ip.ip(),
                port: endpoint.port,
                protocol: endpoint.protocol,
            },
            shape: Shape {
                reason: proven.reason,
                openers_only: proven.uid_state != UidState::Dead,
            },
            meant: proven.dead_uid.to_string(),
            owner: (proven.owner_uid != Uid::NONE).then(|| proven.owner_uid.to_string()),
        });
        denials.collect()
    }

    fn apply(&mut self, now: Duration, event: &ApiEvent) -> Result<()> {
        let fact = match event.kind {
            Kind::Pod => change(event)?.map(Fact::Pod),
            Kind::Service => change(event)?.map(Fact::Service),
            Kind::EndpointSlice => change(event)?.map(Fact::Slice),
            Kind::Node => change(event)?.map(Fact::Node),
            kind => bail!("{kind} is not watched"),
        };
        if let Some(fact) = fact {
            self.state.apply(now, fact);
        }
        Ok(())
    }

    /// Answers the lists and the freshness check that the state waits for, as the agent does, but
    /// at once: the judge allows no delay.
    fn confirm(&mut self, now: Duration) -> Result<()> {
        // A list confirms what was found before it was requested.
        let later = now + Duration::from_millis(1);
        for watched in self.state.wanted_lists() {
            let Some(kind) = recorded(watched) else {
                continue;
            };
            let change = Change::Reset(self.listed.of(kind).cloned().collect());
            self.apply(later, &ApiEvent { kind, change })?;
        }
        while let Some((name, _)) = self.state.take_node_check(now) {
            let uid = self
                .state
                .cluster()
                .nodes
                .get(&name)
                .map(|node| node.uid)
                .unwrap_or_default();
            self.state.apply(
                later,
                Fact::NodeSeen(NodeSeen {
                    name,
                    uid,
                    at: later,
                }),
            );
        }
        Ok(())
    }
}

/// The change in the form of the agent's watches. The end of a watch is no event for the state
/// machine.
fn change<T: facts::Object>(event: &ApiEvent) -> Result<Option<facts::Change<T>>> {
    let parse = |object: &RecordedObject| {
        T::parse(&serde_json::to_vec(object.as_ref())?).map_err(anyhow::Error::from_boxed)
    };
    Ok(Some(match &event.change {
        Change::Reset(list) => {
            facts::Change::Reset(list.iter().map(parse).collect::<Result<_, _>>()?)
        }
        Change::Applied(object) => facts::Change::Applied(parse(object)?),
        Change::Deleted(object) => facts::Change::Deleted(parse(object)?),
        Change::Closed | Change::Resumed => return Ok(None),
    }))
}
