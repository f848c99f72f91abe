//! The environment of a whole agent: process, network namespace, maps, and watches at a real API server.

use super::{
    agent::Uids,
    recording::{Recording, What},
    story::{self, Story},
    stream::{ApiEvent, Change, Kind, Object},
    subject::{Denial, Key, Shape, Subject},
};
use crate::{
    api::{ApiServer, Store},
    net::NetNs,
    object,
    proxy::Protocol,
    scenario::{
        agent::{Agent, AgentOptions},
        format,
        workdir::Workdir,
    },
    wait::PATIENCE,
};
use anyhow::{Context, Result, ensure};
use epguard::commands::dump;
use epguard::shared::status::{self, Status};
use epguard_common::{Denial as Entry, DenialKey, Reason, Uid, UidState};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Replays a recording to a whole agent, `speed` times as fast as it happened, and prints how long the agent took. Needs root.
pub async fn perform(recording: &Recording, speed: f64) -> Result<Story> {
    let mut theatre = Theatre::new(recording)?;
    let story = story::replay(recording, &mut theatre, Some(speed)).await?;
    let latency = theatre.status()?.latency;
    eprintln!(
        "{}: {} API events, from receipt to map write: median {} us, 99th percentile {} us, longest {} us",
        story.name, latency.count, latency.p50_us, latency.p99_us, latency.max_us
    );
    Ok(story)
}

struct Theatre {
    // Dropped in this order: the agent before its namespace and directory.
    agent: Option<Agent>,
    server: ApiServer,
    store: Store,
    workdir: Workdir,
    netns: NetNs,
    node: String,
    /// Kinds whose first list is still to come; the agent starts when all have been shown.
    awaited: BTreeSet<Kind>,
    /// Kinds whose watch was recorded as ended; the server is away while there is one.
    closed: BTreeSet<Kind>,
    uids: Uids,
}

impl Theatre {
    fn new(recording: &Recording) -> Result<Self> {
        let netns = NetNs::new("replay")?;
        netns.ip(&["link set lo up", "link add eth0 type veth peer name eth1"])?;
        let store = Store::new();
        for namespace in recording.namespaces() {
            store.ensure_namespace(namespace)?;
        }
        let listener = netns.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let lists = recording.instants.iter().filter_map(|(_, what)| match what {
            What::Api(ApiEvent { kind, change: Change::Reset(_) }) => Some(*kind),
            _ => None,
        });
        Ok(Self {
            agent: None,
            server: ApiServer::start(listener, store.clone())?,
            store,
            workdir: Workdir::new()?,
            netns,
            node: recording.a_node().context("the recording shows no node")?,
            awaited: lists.collect(),
            closed: BTreeSet::new(),
            uids: Uids::of(recording),
        })
    }

    fn status(&self) -> Result<Status> {
        status::read(self.workdir.path())
    }

    /// Replaces a whole collection; the store sends open watches the differences.
    async fn show_list(&mut self, kind: Kind, objects: &[Object]) -> Result<()> {
        let listed: BTreeSet<String> = objects.iter().map(|object| object::name(object)).collect();
        let gone = self.store.list(kind).into_iter().filter(|object| !listed.contains(&object::name(object)));
        for object in gone {
            self.store.show(object, true)?;
        }
        for object in objects {
            self.store.show(Value::clone(object), false)?;
        }
        self.store.forget_history_of(kind);
        self.awaited.remove(&kind);
        if self.awaited.is_empty() && self.agent.is_none() {
            let flags = format::Agent {
                mode: Some("enforce".into()),
                enforce_retired: true,
                ..format::Agent::default()
            };
            let options = AgentOptions {
                node: &self.node,
                hooks: None,
                action: None,
                flags: &flags,
                cgroup: None,
                cilium_maps: None,
            };
            let kubeconfig = self.server.kubeconfig();
            let mut agent = Agent::prepare(&self.netns, &self.workdir, &kubeconfig, &options)?;
            agent.start_again()?;
            self.agent = Some(agent);
            self.watching().await?;
        }
        Ok(())
    }

    /// Opens a recorded watch again; the server is back once all are open.
    async fn resume(&mut self, kind: Kind) -> Result<()> {
        if self.closed.remove(&kind) && self.closed.is_empty() {
            self.server.faults(|faults| faults.outage = false);
            self.watching().await?;
        }
        Ok(())
    }

    /// Waits until the agent watches everything: it lists, and waits between attempts, in real time, not in the story's.
    async fn watching(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let watches = |status: Status| status.synced && status.watches.values().all(|watch| watch.up);
        while !self.status().is_ok_and(watches) {
            ensure!(Instant::now() < deadline, "the agent does not watch everything after {PATIENCE:?}");
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    fn denial(
        &self,
        services: &BTreeMap<String, String>,
        target: &DenialKey,
        entry: &Entry,
    ) -> Result<Denial> {
        ensure!(
            !matches!(entry.reason, Reason::Nothing | Reason::Terminated),
            "a denial for {:?}",
            entry.reason
        );
        let slot = target.service.number.to_string();
        Ok(Denial {
            key: Key {
                service: services
                    .get(&slot)
                    .cloned()
                    .with_context(|| format!("slot {slot} has no Service"))?,
                ip: target.addr.ip(),
                port: target.port,
                protocol: Protocol::from_number(target.protocol)
                    .with_context(|| format!("a denial for IP protocol {}", target.protocol))?,
            },
            shape: Shape { reason: entry.reason, openers_only: entry.uid_state == UidState::Retired },
            meant: self.uids.text(entry.dead_uid),
            owner: (entry.owner_uid != Uid::NONE).then(|| self.uids.text(entry.owner_uid)),
        })
    }
}

impl Subject for Theatre {
    async fn feed(&mut self, _: Duration, event: &ApiEvent) -> Result<()> {
        match &event.change {
            Change::Reset(objects) => {
                self.show_list(event.kind, objects).await?;
                self.resume(event.kind).await?;
            }
            Change::Applied(object) => self.store.show(Value::clone(object), false)?,
            Change::Deleted(object) => self.store.show(Value::clone(object), true)?,
            Change::Closed => {
                self.closed.insert(event.kind);
                self.server.faults(|faults| faults.outage = true);
            }
            Change::Resumed => self.resume(event.kind).await?,
        }
        Ok(())
    }

    async fn denials(&mut self) -> Result<Vec<Denial>> {
        let Some(agent) = &self.agent else {
            return Ok(Vec::new());
        };
        let Ok(status) = self.status() else {
            return Ok(Vec::new());
        };
        let entries = dump::denials(agent.pin_dir())?;
        // A slot that the status doesn't name yet is named at the next reading.
        let named = entries
            .iter()
            .filter(|(_, entry)| entry.held == 0)
            .map(|(target, entry)| self.denial(&status.services, target, entry));
        Ok(named.filter_map(Result::ok).collect())
    }
}
