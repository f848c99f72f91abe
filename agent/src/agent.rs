//! The loop's body: what each kind of news leads to. Nothing here waits.

use crate::cli::AgentArgs;
use crate::datapath::{Datapath, boot_ns};
use crate::facts::{Fact, Name, Presence, Protocol};
use crate::maps::Writer;
use crate::netlink::{Event as LinkEvent, Interface, Roles, Selection};
use crate::report::Report;
use crate::state::{Socket, State};
use crate::status::{Attachment, Conflict, Latency, Question, Status, Watch};
use crate::watch::{Message, WatchId, ids};
use anyhow::{Result, bail};
use epguard_common::{Event, Mode, Outcome};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Everything that one loop owns.
pub struct Agent {
    state: State,
    writer: Writer,
    datapath: Datapath,
    report: Report,
    selection: Selection,
    roles: Roles,
    lease: Duration,
    lease_deadline_ns: u64,
    must_enforce: bool,
    watches: BTreeMap<WatchId, Watch>,
    interfaces: BTreeMap<u32, Attachment>,
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
            datapath,
            report: Report::default(),
            selection: args.selection(),
            roles: Roles::default(),
            lease: args.lease,
            lease_deadline_ns: 0,
            must_enforce: args.mode == Mode::Enforce,
            watches: ids(args.pod_scope)
                .into_iter()
                .map(|id| (id, Watch::default()))
                .collect(),
            interfaces: BTreeMap::new(),
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
                    self.state.apply(now(), *fact);
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
            LinkEvent::Appeared(interface) => self.hook(&interface)?,
            LinkEvent::Gone { ifindex } => {
                self.interfaces.remove(&ifindex);
                self.roles.remove(ifindex);
                self.writer.set_role(ifindex, None);
                if let Err(error) = self.datapath.unhook(ifindex) {
                    tracing::debug!(ifindex, "already detached: {error:#}");
                }
            }
            LinkEvent::Addresses(addresses) => {
                self.state.apply(now(), Fact::LocalAddresses(addresses));
                self.write()?;
            }
            LinkEvent::Defaults(defaults) => {
                for ifindex in self.roles.set_defaults(defaults) {
                    self.writer.set_role(ifindex, self.roles.number(ifindex));
                    if let Some((role, shown)) =
                        self.roles.role(ifindex).zip(self.interfaces.get_mut(&ifindex))
                    {
                        role.as_str().clone_into(&mut shown.role);
                    }
                }
            }
            LinkEvent::Held(ips) => {
                self.state.apply(now(), Fact::Presence(Presence::Held(ips)));
                self.write()?;
            }
            LinkEvent::Settled if self.interfaces.is_empty() => {
                bail!(
                    "no interface matches --pod-interfaces and --uplinks: nothing would be protected (see `ip link`)"
                )
            }
            LinkEvent::Settled => tracing::info!(interfaces = self.interfaces.len(), "hooked"),
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
        let half_over = boot_ns() + nanoseconds(self.lease / 2) > self.lease_deadline_ns;
        if half_over { self.renew_lease() } else { Ok(()) }
    }

    /// Answers whoever asks for the status; one who has left needs no answer.
    pub fn on_question(&self, question: Question) {
        let _ = question.send(self.status());
    }

    fn status(&self) -> Status {
        let deadline = i64::try_from(self.lease_deadline_ns / 1_000_000).unwrap_or(i64::MAX);
        let named = |watch: &WatchId| watch.to_string();
        let conflicts = self.report.open_conflicts(&self.state);
        Status {
            synced: self.state.is_synced(),
            mode: self.writer.mode().map_or("unknown", Mode::as_str).to_owned(),
            ranges: self.state.ranges().into(),
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
            interfaces: self.interfaces.values().cloned().collect(),
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

    fn hook(&mut self, interface: &Interface) -> Result<()> {
        let role = self.roles.add(interface, &self.selection);
        self.writer
            .set_role(interface.ifindex, self.roles.number(interface.ifindex));
        let Some(role) = role else {
            return Ok(());
        };
        let error = match self.datapath.hook(interface.ifindex, &interface.name) {
            Ok(()) => None,
            Err(error) if vanished(&error) => return Ok(()),
            Err(error) if self.must_enforce => return Err(error),
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(error) = &error {
            tracing::warn!(interface = interface.name, error, "not hooked");
        }
        let attachment = Attachment {
            ifindex: interface.ifindex,
            name: interface.name.clone(),
            role: role.as_str().to_owned(),
            attached: error.is_none(),
            error,
        };
        self.interfaces.insert(interface.ifindex, attachment);
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
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
        self.lease_deadline_ns = boot_ns() + nanoseconds(self.lease);
        self.writer.renew_lease(self.lease_deadline_ns)
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

/// Whether an interface went away between its announcement and the attachment.
fn vanished(error: &anyhow::Error) -> bool {
    let gone = |error: &std::io::Error| matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO));
    error
        .chain()
        .any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(gone))
}
