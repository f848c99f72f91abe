//! The agent's state machine on trial.

use super::{
    recording::Recording,
    stream::{ApiEvent, Change, Kind, Object},
    subject::{Denial, Key, Protocol, Reason, Shape, Subject},
};
use anyhow::Result;
use epguard_common::{Mode, Reason as Proof, Uid, UidState};
use epguard_core::facts::{self, Fact, Namespace, Watched};
use epguard_core::state::{Ipam, Proven, Ranges, Settings, Socket, State};
use std::{collections::BTreeMap, time::Duration};

/// `epguard_core::state::State`.
#[derive(Debug)]
pub struct Agent {
    state: State,
    /// UIDs as the API writes them.
    uids: BTreeMap<Uid, String>,
    /// What the API server would list now.
    listed: BTreeMap<Kind, BTreeMap<String, Object>>,
}

impl Agent {
    /// An agent on one of the recording's nodes.
    #[must_use]
    pub fn new(recording: &Recording) -> Self {
        let settings = Settings {
            node: recording.a_node().unwrap_or_default(),
            ipam: Ipam::Auto,
            ranges: Ranges::default(),
        };
        let namespaces = recording.namespaces().into_iter().map(|name| Namespace {
            name: name.to_owned(),
            bound: Mode::Enforce,
        });
        let mut state = State::new(settings);
        state.apply(
            Duration::ZERO,
            Fact::Namespace(facts::Change::Reset(namespaces.collect())),
        );
        let uids = recording.pod_names().into_keys();
        Self {
            state,
            uids: uids.filter_map(|uid| Some((Uid::parse(&uid)?, uid))).collect(),
            listed: BTreeMap::new(),
        }
    }

    /// The state machine itself.
    pub fn state(&mut self) -> &mut State {
        &mut self.state
    }

    fn apply(&mut self, now: Duration, event: &ApiEvent) -> Result<()> {
        let fact = match event.kind {
            Kind::Pod => change(event)?.map(Fact::Pod),
            Kind::Service => change(event)?.map(Fact::Service),
            Kind::Slice => change(event)?.map(Fact::Slice),
            Kind::Node => change(event)?.map(Fact::Node),
        };
        if let Some(fact) = fact {
            self.state.apply(now, fact);
        }
        Ok(())
    }

    /// Lists again what the state waits for, as the agent does, but in no time: the judge grants none.
    fn confirm(&mut self, now: Duration) -> Result<()> {
        for watched in self.state.wanted_lists() {
            let kind = match watched {
                Watched::Pods => Kind::Pod,
                Watched::EndpointSlices => Kind::Slice,
                Watched::Services => Kind::Service,
                Watched::Nodes => Kind::Node,
                Watched::Namespaces | Watched::ModePolicy => continue,
            };
            let objects = self.listed.entry(kind).or_default().values().cloned().collect();
            let change = Change::Reset(objects);
            self.apply(now, &ApiEvent { kind, change })?;
        }
        Ok(())
    }

    fn remember(&mut self, event: &ApiEvent) {
        let key = |object: &Object| {
            format!(
                "{}/{}",
                object["metadata"]["namespace"], object["metadata"]["name"]
            )
        };
        let listed = self.listed.entry(event.kind).or_default();
        match &event.change {
            Change::Reset(list) => *listed = list.iter().map(|o| (key(o), o.clone())).collect(),
            Change::Applied(object) => _ = listed.insert(key(object), object.clone()),
            Change::Deleted(object) => _ = listed.remove(&key(object)),
            Change::Closed | Change::Resumed => {}
        }
    }

    fn uid(&self, uid: Uid) -> String {
        self.uids.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    fn denial(&self, (namespace, name): &facts::Name, socket: &Socket, proven: &Proven) -> Option<Denial> {
        Some(Denial {
            key: Key {
                service: format!("{namespace}/{name}"),
                ip: socket.ip.ip(),
                port: socket.port,
                protocol: match socket.protocol {
                    facts::Protocol::Tcp => Protocol::Tcp,
                    facts::Protocol::Udp => Protocol::Udp,
                    facts::Protocol::Sctp => Protocol::Sctp,
                },
            },
            shape: Shape {
                reason: match proven.reason {
                    Proof::DeadBackend => Reason::DeadBackend,
                    Proof::Reused => Reason::Reused,
                    Proof::RetiredBackend => Reason::RetiredBackend,
                    _ => return None,
                },
                openers_only: proven.state != UidState::Dead,
            },
            meant: self.uid(proven.meant),
            owner: proven.owner.map(|uid| self.uid(uid)),
        })
    }
}

impl Subject for Agent {
    fn feed(&mut self, now: Duration, event: &ApiEvent) -> Result<()> {
        self.remember(event);
        self.apply(now, event)?;
        self.state.tick(now);
        self.confirm(now)
    }

    fn denials(&self) -> Vec<Denial> {
        let all = self.state.denials();
        all.filter(|(service, socket, _)| !self.state.is_held(service, socket))
            .filter_map(|(service, socket, proven)| self.denial(service, socket, proven))
            .collect()
    }
}

/// As the agent's watches would report it; that a watch ended is nothing to the state machine.
fn change<T: facts::Object>(event: &ApiEvent) -> Result<Option<facts::Change<T>>> {
    let parse = |object: &Object| T::parse(&serde_json::to_vec(object.as_ref())?);
    Ok(Some(match &event.change {
        Change::Reset(list) => facts::Change::Reset(list.iter().map(parse).collect::<Result<_, _>>()?),
        Change::Applied(object) => facts::Change::Applied(parse(object)?),
        Change::Deleted(object) => facts::Change::Deleted(parse(object)?),
        Change::Closed | Change::Resumed => return Ok(None),
    }))
}
