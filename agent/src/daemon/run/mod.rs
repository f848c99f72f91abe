//! `epguard agent`: connects all parts to one loop that owns the state and the maps.

pub mod gather;
pub mod inbox;

use crate::daemon::agent::{Agent, AgentParts};
use crate::daemon::args::AgentArgs;
use crate::daemon::attachments::Attachments;
use crate::daemon::demotion::Demotions;
use crate::daemon::node_thread::{NodeThread, route};
use crate::daemon::node_work::NodeWork;
use crate::daemon::report::Names;
use crate::daemon::report::denial_log::Report;
use crate::daemon::report::kube_events::Announcer;
use crate::daemon::report::metrics::{self, Pages};
use crate::daemon::report::ring_buffer::{self, Events};
use crate::daemon::takeover::{Takeover, lock_run_dir, restored_state};
use crate::daemon::{lease, telemetry};
use crate::kernel::datapath::check_kernel;
use crate::kernel::maps::only_agent;
use crate::node::netlink;
use crate::shared::clock::boot;
use crate::shared::{client, pace::Pace, run_dir, status};
use crate::watch::{self, Message, Watches};
use anyhow::{Context as _, Error, Result, anyhow};
use epguard_core::facts::Watched;
use futures::future::LocalBoxFuture;
use gather::Gather;
use inbox::{BACKLOG, Inbox, Input};
use kube::Client;
use std::path::PathBuf;
use std::{future, thread};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Runs until a signal, or until an error after which nothing is protected any more.
pub async fn run(args: AgentArgs) -> Result<()> {
    telemetry::init(args.log_format, args.debug_datapath)?;
    let _run_dir_lock = lock_run_dir(&args.run.run_dir)?;
    let rate = args.api.rate(Watched::ALWAYS.len(), args.max_view_age)?;
    let pace = Pace::new(rate, args.api.burst);
    let (api, api_ended) = start_thread("watches")?;
    let (node, _node_ended) = start_thread("node")?;
    let client = connect(&api, args.kubeconfig.clone(), pace.clone()).await?;
    let metrics_listener = metrics::bind(args.metrics.listen, "--metrics-listen").await?;
    let health_listener = metrics::bind(args.metrics.health, "--health-listen").await?;
    let _pin_dir_lock = only_agent(&args.pins.pin_dir)?;
    check_kernel()?;
    let Takeover {
        mut datapath,
        writer,
        translators,
        mode_policy,
    } = Takeover::new(&args)?;
    let mut events = Events::new(&mut datapath.ebpf)?;
    if args.debug_datapath {
        tokio::spawn(ring_buffer::log(&mut datapath.ebpf)?);
    }

    let (sender, messages) = mpsc::channel(BACKLOG);
    let (mut watches, announcer) = use_api(&api, client, &args, &sender);
    let watch_tasks = watches.take_tasks();
    let attachments = Attachments::new(datapath, args.selection(), args.clsact_delay);
    let work = NodeWork::new(attachments, translators);
    let (node_thread, hooks_ended) = NodeThread::start(work)?;
    let snapshots = node_thread.snapshots();
    let (announce, events_of_node) = mpsc::channel(BACKLOG);
    let (to_loop, node_events) = mpsc::channel(BACKLOG);
    node.spawn(route(events_of_node, node_thread.orders(), to_loop));
    let interfaces = node.spawn(netlink::follow(announce.clone()));
    let (ask, questions) = mpsc::channel(1);
    let (probe, probes) = mpsc::channel(1);
    let pages = Pages::Metrics(args.pins.pin_dir.clone());
    let metrics = Box::pin(metrics::serve(metrics_listener, pages, ask.clone()));
    let health = Box::pin(metrics::serve(health_listener, Pages::Health, probe));
    let status = Box::pin(status::serve(&args.run.run_dir, ask));

    let names = Names::load(&args.run.run_dir)?;
    let demotions = Demotions::load(&args.run.run_dir, args.on_wrong_deny)?;
    let parts = AgentParts {
        state: restored_state(&args, &writer, &names, &demotions),
        writer,
        report: Report::new(names, announcer),
        demotions,
        node: node_thread,
        api: watches,
        pace,
        mode_policy,
    };
    // The loop's future stays small.
    let mut agent = Box::new(Agent::new(parts, &args));
    agent.on_snapshot()?;
    let mut background = Background {
        interfaces,
        routes: node.spawn(netlink::presence(announce, agent.ranges_in_question())),
        hooks: hooks_ended,
        api: api_ended,
        watches: watch_tasks,
        metrics,
        health,
        status,
    };
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mode = agent.mode().as_str();
    tracing::info!(node = args.node_name, mode, "started");
    let mut inbox = Inbox {
        tick: ticks(&args),
        probes,
        node: node_events,
        snapshots,
        messages,
        gather: Gather::default(),
        questions,
        reports: async || events.next().await,
        has_worked: false,
    };
    loop {
        let input = tokio::select! {
            biased;
            _ = terminate.recv() => break,
            _ = tokio::signal::ctrl_c() => break,
            error = background.ended() => return Err(error),
            input = inbox.next(agent.has_backlog()) => input?,
        };
        agent.receive(inbox.take_messages(BACKLOG.saturating_sub(agent.waiting())));
        act(&mut agent, input)?;
    }
    if !args.detach_on_exit {
        tracing::info!("stopped; denials stay until the lease ends, or the next agent takes over");
        return Ok(());
    }
    agent.end();
    let work = background.hooks.await;
    let pins = work.context("the thread of the hooks ended")??.detach()?;
    let removed = pins.len() + run_dir::clear(&args.run.run_dir).len();
    tracing::info!(removed, "stopped and detached; nothing is denied any more");
    Ok(())
}

/// What runs beside the loop. The agent cannot go on without any of it.
struct Background<'a> {
    /// Follows the node's interfaces.
    interfaces: JoinHandle<()>,
    /// Follows the node's routes.
    routes: JoinHandle<()>,
    /// The thread that hooks interfaces.
    hooks: oneshot::Receiver<Result<NodeWork>>,
    /// The thread of the watches.
    api: oneshot::Receiver<()>,
    /// The tasks on it: the watches, and what asks for Nodes.
    watches: JoinSet<()>,
    metrics: LocalBoxFuture<'a, Result<()>>,
    health: LocalBoxFuture<'a, Result<()>>,
    status: LocalBoxFuture<'a, Result<()>>,
}

impl Background<'_> {
    /// Runs the servers, and waits until one of these parts ends: then the agent has to end, too.
    /// Safe to cancel.
    async fn ended(&mut self) -> Error {
        tokio::select! {
            biased;
            ended = &mut self.interfaces => because(ended, "cannot follow the node's interfaces any more"),
            ended = &mut self.routes => because(ended, "cannot follow the node's routes any more"),
            ended = &mut self.hooks => match ended {
                Ok(Err(error)) => error,
                Ok(Ok(_)) => anyhow!("the thread of the hooks has ended: restart the agent"),
                Err(error) => Error::new(error).context("the thread of the hooks ended"),
            },
            _ = &mut self.api => anyhow!("the thread of the watches has ended: restart the agent"),
            Some(ended) = self.watches.join_next() => because(ended, "a task of the watches has ended: restart the agent"),
            ended = &mut self.metrics => because(ended, "cannot serve metrics"),
            ended = &mut self.health => because(ended, "cannot serve health"),
            ended = &mut self.status => because(ended, "cannot serve the status"),
        }
    }
}

/// The error that something ended with, or without one only what ended.
fn because<E: Into<Error>>(ended: Result<(), E>, what: &'static str) -> Error {
    match ended {
        Ok(()) => anyhow!(what),
        Err(error) => error.into().context(what),
    }
}

/// The latest times to renew the lease.
fn ticks(args: &AgentArgs) -> Interval {
    let mut ticks = interval(lease::period(args.lease, args.max_view_age));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Starts a thread for what keeps one busy or waits, as the loop has a lease to renew meanwhile:
/// TLS and JSON of large lists take long, and the kernel answers netlink only once other programs'
/// changes of the network are done.
///
/// It runs what is spawned on the handle until the process ends; if it ends before, the receiver
/// fails.
fn start_thread(name: &str) -> Result<(Handle, oneshot::Receiver<()>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .with_context(|| format!("cannot start a runtime for {name}"))?;
    let handle = runtime.handle().clone();
    let (runs, ended) = oneshot::channel();
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let _runs: oneshot::Sender<()> = runs;
            runtime.block_on(future::pending::<()>());
        })
        .with_context(|| format!("cannot start a thread for {name}"))?;
    Ok((handle, ended))
}

/// The client, made on the thread that its requests are sent from.
async fn connect(api: &Handle, kubeconfig: Option<PathBuf>, pace: Pace) -> Result<Client> {
    let client = async move { Ok(pace.client(client::client(kubeconfig.as_deref()).await?)) };
    api.spawn(client)
        .await
        .context("the thread of the watches ended")?
}

/// Starts what uses the API, on its thread.
fn use_api(
    api: &Handle,
    client: Client,
    args: &AgentArgs,
    sender: &Sender<Message>,
) -> (Watches, Announcer) {
    let _on_its_thread = api.enter();
    let mode_policy = args.mode_policy.as_ref();
    let watches = watch::start(&client, boot, &args.node_name, mode_policy, sender);
    (
        watches,
        Announcer::start(client, args.node_name.clone(), args.api.events),
    )
}

/// Carries out what the inbox has selected.
pub fn act(agent: &mut Agent, input: Input) -> Result<()> {
    match input {
        Input::Tick => agent.on_tick(),
        Input::Node(event) => agent.on_node_event(event),
        Input::Snapshot => agent.on_snapshot(),
        Input::Work => agent.run_turn(),
        Input::Question(question) => agent.on_question(question),
        Input::Events(events) => agent.on_events(events),
    }
}
