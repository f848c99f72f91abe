//! The agent's state machine, fed with a recording.

use super::oracle::{Denial, Shape};
use super::recording::{ApiEvent, Change, Kind, Listed, Object, Recording};
use super::world::Key;
use anyhow::{Result, bail};
use epguard_common::{Mode, Uid, UidState};
use epguard_core::facts::{self, Fact, Namespace, Watched};
use epguard_core::state::{Endpoint, Ipam, Ranges, Settings, State};
use std::{collections::BTreeMap, time::Duration};

/// Adapter for `epguard_core::state::State`.
#[derive(Debug)]
pub struct Agent {
    state: State,
    /// UIDs as the API writes them.
    uids: BTreeMap<Uid, String>,
    listed: Listed,
}

/// The kind in recordings; the other collections are taken to be empty.
fn recorded(watched: Watched) -> Option<Kind> {
    Some(match watched {
        Watched::Pods => Kind::Pod,
        Watched::EndpointSlices => Kind::EndpointSlice,
        Watched::Services => Kind::Service,
        Watched::Nodes => Kind::Node,
        _ => return None,
    })
}

impl Agent {
    /// An agent on one of the recording's nodes.
    pub fn new(recording: &Recording) -> Self {
        let settings = Settings {
            node: recording.a_node().unwrap_or_default(),
            ipam: Ipam::Auto,
            ranges: Ranges::default(),
        };
        let namespaces = recording
            .namespaces()
            .into_iter()
            .map(|name| Namespace { name: name.into(), bound: Mode::Enforce });
        let mut state = State::new(settings);
        for watched in Watched::ALWAYS.into_iter().filter(|watched| recorded(*watched).is_none()) {
            state.apply(Duration::ZERO, watched.empty());
        }
        state.apply(Duration::ZERO, Fact::Namespace(facts::Change::Reset(namespaces.collect())));
        let uids = recording.pod_names().into_keys();
        let uids = uids.filter_map(|uid| Some((Uid::parse(&uid)?, uid))).collect();
        Self { state, uids, listed: Listed::default() }
    }

    /// The state machine itself.
    pub fn state(&mut self) -> &mut State {
        &mut self.state
    }

    /// Takes one event; `now` is the time since the recording began. An error if an agent could not take the object.
    pub fn feed(&mut self, now: Duration, event: &ApiEvent) -> Result<()> {
        self.listed.apply(event);
        self.apply(now, event)?;
        self.state.tick(now);
        self.confirm(now)
    }

    /// Everything denied now.
    pub fn denials(&self) -> Vec<Denial> {
        let all = self.state.denials();
        all.filter(|(service, endpoint, _)| !self.state.is_pending(service, endpoint))
            .map(|(service, endpoint, denial)| self.denial(service, endpoint, denial))
            .collect()
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

    /// Answers the lists that the state waits for, as the agent does, but at once: the judge allows no delay.
    fn confirm(&mut self, now: Duration) -> Result<()> {
        for watched in self.state.wanted_lists() {
            let Some(kind) = recorded(watched) else {
                continue;
            };
            let change = Change::Reset(self.listed.of(kind).cloned().collect());
            self.apply(now, &ApiEvent { kind, change })?;
        }
        Ok(())
    }

    fn denial(
        &self,
        (namespace, name): &facts::Name,
        endpoint: &Endpoint,
        proven: &epguard_common::Denial,
    ) -> Denial {
        Denial {
            key: Key {
                service: format!("{namespace}/{name}"),
                ip: endpoint.ip.ip(),
                port: endpoint.port,
                protocol: endpoint.protocol,
            },
            shape: Shape { reason: proven.reason, openers_only: proven.uid_state != UidState::Dead },
            meant: self.uid(proven.dead_uid),
            owner: (proven.owner_uid != Uid::NONE).then(|| self.uid(proven.owner_uid)),
        }
    }

    fn uid(&self, uid: Uid) -> String {
        self.uids.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

/// The change in the form of the agent's watches. The end of a watch is no event for the state machine.
fn change<T: facts::Object>(event: &ApiEvent) -> Result<Option<facts::Change<T>>> {
    let parse =
        |object: &Object| T::parse(&serde_json::to_vec(object.as_ref())?).map_err(anyhow::Error::from_boxed);
    Ok(Some(match &event.change {
        Change::Reset(list) => facts::Change::Reset(list.iter().map(parse).collect::<Result<_, _>>()?),
        Change::Applied(object) => facts::Change::Applied(parse(object)?),
        Change::Deleted(object) => facts::Change::Deleted(parse(object)?),
        Change::Closed | Change::Resumed => return Ok(None),
    }))
}
