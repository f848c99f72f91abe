//! The loop's body: what each kind of news leads to. Nothing here waits.

use crate::attachments::Attachments;
use crate::cli::AgentArgs;
use crate::datapath::{Datapath, boot_ns};
use crate::facts::{Fact, Name, Presence, Protocol};
use crate::maps::Writer;
use crate::netlink::Event as LinkEvent;
use crate::report::Report;
use crate::state::{Socket, State};
use crate::status::{Conflict, Latency, Question, Status, Watch};
use crate::watch::{Message, WatchId, ids};
use anyhow::Result;
use epguard_common::{Event, Mode, Outcome};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Everything that one loop owns.
pub struct Agent {
    state: State,
    writer: Writer,
    attachments: Attachments,
    report: Report,
    lease: Duration,
    watches: BTreeMap<WatchId, Watch>,
    latency: Latency,
    refused: usize,
}

impl Agent {
    /// An agent that knows nothing yet, so denies nothing.
    #[must_use]
    pub fn new(state: State, writer: Writer, datapath: Datapath, args: &AgentArgs) -> Self {
        Self {
            state,
            writer,
            attachments: Attachments::new(datapath, args.selection(), args.mode == Mode::Enforce),
            report: Report::default(),
            lease: args.lease,
            watches: ids(args.pod_scope)
                .into_iter()
                .map(|id| (id, Watch::default()))
                .collect(),
            latency: Latency::default(),
            refused: 0,
        }
    }

    /// Takes in what the watches say, and writes once for all of it.
    pub fn on_messages(&mut self, messages: Vec<Message>) -> Result<()> {
        let mut receipts = Vec::new();
        let was_synced = self.state.is_synced();
        for message in messages {
            match message {
                Message::Fact {
                    watch,
                    received,
                    rv,
                    fact,
                } => {
                    self.state.apply(now(), fact);
                    self.watch(watch).rv = rv;
                    receipts.push(received);
                }
                Message::Progress { watch, rv } => self.watch(watch).rv = rv,
                Message::Up(watch) => {
                    tracing::info!(%watch, "watching");
                    *self.watch(watch) = Watch {
                        up: true,
                        error: None,
                        ..self.watch(watch).clone()
                    };
                }
                Message::Down { watch, error } => {
                    tracing::warn!(%watch, error, "watch lost; denials end with the lease");
                    *self.watch(watch) = Watch {
                        up: false,
                        error: Some(error),
                        ..self.watch(watch).clone()
                    };
                }
                Message::Skipped { watch, what } => {
                    tracing::warn!(%watch, what, "object skipped");
                    self.watch(watch).skipped += 1;
                }
            }
        }
        if !receipts.is_empty() {
            self.write()?;
            let written = Instant::now();
            for received in receipts {
                self.latency.record(written.saturating_duration_since(received));
            }
        }
        if self.state.is_synced() && !was_synced {
            tracing::info!("synced");
            self.renew_lease()?;
        }
        Ok(())
    }

    /// Hooks what appears, forgets what is gone.
    pub fn on_interface(&mut self, event: LinkEvent) -> Result<()> {
        match event {
            LinkEvent::Appeared(interface) => {
                self.attachments.appeared(&interface)?;
                self.show_role(interface.ifindex);
            }
            LinkEvent::Gone { ifindex } => {
                self.attachments.gone(ifindex);
                self.show_role(ifindex);
            }
            LinkEvent::Addresses(addresses) => {
                self.state.apply(now(), Fact::LocalAddresses(addresses));
                self.write()?;
            }
            LinkEvent::Defaults(defaults) => {
                for ifindex in self.attachments.set_defaults(defaults) {
                    self.show_role(ifindex);
                }
            }
            LinkEvent::Held(ips) => {
                self.state.apply(now(), Fact::Presence(Presence::Held(ips)));
                self.write()?;
            }
            LinkEvent::Settled => {
                let attachments = &self.attachments;
                self.writer
                    .retain_roles(|ifindex| attachments.known_role(ifindex).is_some());
                self.attachments.settled()?;
            }
        }
        Ok(())
    }

    /// Reports denied packets.
    pub fn on_events(&mut self, events: &[Event]) -> Result<()> {
        let mut spoke = false;
        for event in events {
            if event.outcome == Outcome::Lifted as u32 {
                spoke = true;
                self.report.lifted(&self.state, event);
                self.state
                    .apply(now(), Fact::Presence(Presence::Spoke(event.src)));
                continue;
            }
            self.report.denied(now(), &self.state, event);
            if let Some(protocol) = Protocol::from_number(event.protocol) {
                let socket = Socket {
                    ip: event.dst,
                    port: event.dst_port,
                    protocol,
                };
                self.state.hit(now(), event.slot, &socket);
            }
        }
        if spoke { self.write() } else { Ok(()) }
    }

    /// Lets time pass, and vouches for the view if all watches run.
    pub fn on_tick(&mut self) -> Result<()> {
        self.state.tick(now());
        self.write()?;
        self.attachments.tick()?;
        let half_over = boot_ns() + nanoseconds(self.lease / 2) > self.writer.lease_deadline_ns();
        if half_over { self.renew_lease() } else { Ok(()) }
    }

    /// Answers whoever asks for the status; one who has left needs no answer.
    pub fn on_question(&self, question: Question) {
        let _ = question.send(self.status());
    }

    /// Removes everything of ours from the kernel.
    pub fn detach(self) -> Result<Vec<String>> {
        self.attachments.detach()
    }

    fn status(&self) -> Status {
        let deadline = i64::try_from(self.writer.lease_deadline_ns() / 1_000_000).unwrap_or(i64::MAX);
        let named = |watch: &WatchId| watch.to_string();
        let conflicts = self.report.open_conflicts(&self.state);
        Status {
            synced: self.state.is_synced(),
            mode: self.writer.mode().map_or("unknown", Mode::as_str).to_owned(),
            watches: self
                .watches
                .iter()
                .map(|(id, watch)| (named(id), watch.clone()))
                .collect(),
            applied: self
                .watches
                .iter()
                .map(|(id, watch)| (named(id), watch.rv))
                .collect(),
            lease_ms: deadline - i64::try_from(boot_ns() / 1_000_000).unwrap_or(i64::MAX),
            pods: self.pod_names(),
            services: self
                .state
                .affected_services()
                .map(|(slot, (namespace, name))| (slot.to_string(), format!("{namespace}/{name}")))
                .collect(),
            interfaces: self.attachments.list().cloned().collect(),
            latency: self.latency.figures(),
            conflicts: conflicts
                .into_iter()
                .map(|(ip, pods)| Conflict {
                    ip: ip.to_string(),
                    pods,
                })
                .collect(),
            refused: self.refused,
        }
    }

    fn pod_names(&self) -> BTreeMap<String, String> {
        let named = |(namespace, name): &Name| format!("{namespace}/{name}");
        let owners = self
            .state
            .owners()
            .filter_map(|uid| Some((uid, named(self.state.pod_name(uid)?))));
        self.report
            .pods()
            .chain(owners)
            .map(|(uid, name)| (uid.to_string(), name))
            .collect()
    }

    fn show_role(&mut self, ifindex: u32) {
        self.writer
            .set_role(ifindex, self.attachments.known_role(ifindex));
    }

    /// Not before the sync: what an earlier process proved stands under its lease, or a restart would let packets through.
    fn write(&mut self) -> Result<()> {
        if !self.state.is_synced() {
            return Ok(());
        }
        if self.writer.install(self.state.tables())? {
            self.report.remember(&self.state);
        }
        let (owners, changed) = self.state.take_owners();
        let left_out = self.writer.install_owners(owners, &changed);
        if left_out > 0 {
            tracing::warn!(
                left_out,
                "OWNERS is full; it decides nothing, but dumps and reports miss these IPs"
            );
        }
        let refused = self.state.tables().refused;
        if refused > self.refused {
            tracing::error!(refused, "a map is full: these denials are not carried out");
        }
        self.refused = refused;
        self.report.conflicts(&self.state, changed.iter());
        Ok(())
    }

    /// Never #4: only while every watch runs and everything received has been applied.
    fn renew_lease(&mut self) -> Result<()> {
        if !self.state.is_synced() || !self.watches.values().all(|watch| watch.up) {
            return Ok(());
        }
        self.writer.renew_lease(boot_ns() + nanoseconds(self.lease))
    }

    fn watch(&mut self, id: WatchId) -> &mut Watch {
        self.watches.entry(id).or_default()
    }
}

/// Monotonic, and goes on while the machine sleeps.
fn now() -> Duration {
    Duration::from_nanos(boot_ns())
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
