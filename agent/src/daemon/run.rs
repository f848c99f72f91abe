//! `epguard agent`: connects all parts to one loop that owns the state and the maps.

pub mod gather;
pub mod inbox;

use crate::daemon::agent::Agent;
use crate::daemon::args::AgentArgs;
use crate::daemon::attachments::Attachments;
use crate::daemon::demotion::Demotions;
use crate::daemon::mode_policy::{Modes, NodeModes};
use crate::daemon::node_thread::{NodeThread, NodeWork, route};
use crate::daemon::report::Names;
use crate::daemon::report::denial_log::Report;
use crate::daemon::report::kube_events::Announcer;
use crate::daemon::report::metrics::{self, Pages};
use crate::daemon::report::ring_buffer::Events;
use crate::daemon::translators::Translators;
use crate::daemon::{lease, memory, telemetry};
use crate::kernel::datapath::{Datapath, Pins, check_kernel, find_cgroup2};
use crate::kernel::maps::{Writer, interface_number, only_agent};
use crate::kernel::{cilium, conntrack};
use crate::node::netlink;
use crate::shared::clock::boot;
use crate::shared::{client, pace::Pace, run_dir, status};
use crate::watch::{self, Message, Watches};
use anyhow::{Context as _, Result, bail, ensure};
use epguard_common::Config;
use epguard_core::facts::Watched;
use epguard_core::state::{Numbers, Settings, State};
use gather::Gather;
use inbox::{BACKLOG, Inbox, Turn};
use kube::Client;
use nix::libc;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::{future, thread};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

/// Runs until a signal, or until an error after which nothing is protected any more.
pub async fn run(args: AgentArgs) -> Result<()> {
    memory::return_memory();
    telemetry::init(args.log_format, args.debug_datapath)?;
    warn_of_old_flags(&args);
    let _only_one = lock(&args.run.run_dir)?;
    let rate = args.api.rate(Watched::ALWAYS.len(), args.max_view_age)?;
    let pace = Pace::new(rate, args.api.burst);
    let (api, mut api_ended) = start_thread("watches")?;
    let (node, _node_ended) = start_thread("node")?;
    let client = connect(&api, args.kubeconfig.clone(), pace.clone()).await?;
    let metrics_listener = metrics::bind(args.metrics.listen, "--metrics-listen").await?;
    let health_listener = metrics::bind(args.metrics.health, "--health-listen").await?;
    let _only_one_here = only_agent(&args.pins.pin_dir)?;
    check_kernel()?;
    let nfct = conntrack::nfct_at();
    let mut datapath = load(&args, nfct.as_ref().copied().unwrap_or(0))?;
    let mut writer = take_over(&mut datapath, &args.pins.pin_dir)?;
    let mut translators = Translators::new(&nfct, &args.cilium_maps, &args.pins.pin_dir);
    translators.follow()?;
    let flags = (args.mode, args.reasons.modes());
    let node_modes = NodeModes::new(
        args.fleet_config.clone(),
        flags,
        &writer.config.read_config()?,
    );
    let Modes {
        mode,
        reasons,
        source,
    } = node_modes.in_force();
    writer
        .config
        .configure(mode, reasons, source.is_config_map())?;
    let (actions, limits) = (args.actions.actions(), args.actions.limits());
    let capture = args.actions.capture()?.map_or(Ok(0), interface_number)?;
    let debug = args.debug_datapath.into();
    writer.config.change(|config| Config {
        actions,
        limits,
        capture,
        debug,
        ..config
    })?;
    let mut events = Events::new(&mut datapath.ebpf)?;
    if args.debug_datapath {
        tokio::spawn(crate::daemon::report::ring_buffer::log(&mut datapath.ebpf)?);
    }

    let (sender, messages) = mpsc::channel(BACKLOG);
    let (watches, announcer) = use_api(&api, client, &args, &sender);
    let attachments = Attachments::new(datapath, args.selection(), args.clsact_delay);
    let (node_thread, mut hooks_ended) =
        NodeThread::start(NodeWork::new(attachments, translators))?;
    let (announce, events_of_node) = mpsc::channel(BACKLOG);
    let (to_loop, node_events) = mpsc::channel(BACKLOG);
    node.spawn(route(events_of_node, node_thread.orders(), to_loop));
    let snapshots = node_thread.snapshots();
    let mut follow = node.spawn(netlink::follow(announce.clone()));
    let (ask, questions) = mpsc::channel(1);
    let (probe, probes) = mpsc::channel(1);
    let metrics = metrics::serve(
        metrics_listener,
        Pages::Metrics(args.pins.pin_dir.clone()),
        ask.clone(),
    );
    let health = metrics::serve(health_listener, Pages::Health, probe);
    let serve = status::serve(&args.run.run_dir, ask);
    tokio::pin!(metrics, health, serve);

    let names = Names::load(&args.run.run_dir)?;
    let demotions = Demotions::load(&args.run.run_dir, args.on_wrong_deny)?;
    let state = state(&args, &writer, &names, &demotions);
    let report = (Report::new(names, announcer), demotions);
    let agent = Agent::new(
        state,
        writer,
        report,
        node_thread,
        (watches, pace),
        node_modes,
        &args,
    );
    // The loop's future stays small.
    let mut agent = Box::new(agent);
    agent.on_snapshot()?;
    let mut presence = node.spawn(netlink::presence(announce, agent.ranges_in_question()));
    let mut tick = interval(lease::period(args.lease, args.max_view_age));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    tracing::info!(node = args.node_name, mode = mode.as_str(), "started");
    let mut inbox = Inbox {
        tick,
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
        let turn = tokio::select! {
            biased;
            _ = terminate.recv() => break,
            _ = tokio::signal::ctrl_c() => break,
            followed = &mut follow => return followed.context("cannot follow the node's interfaces any more"),
            followed = &mut presence => return followed.context("cannot follow the node's routes any more"),
            ended = &mut hooks_ended => {
                ended.context("the thread of the hooks ended")??;
                bail!("the thread of the hooks has ended: restart the agent")
            }
            _ = &mut api_ended => bail!("the thread of the watches has ended: restart the agent"),
            served = &mut metrics => return served.context("cannot serve metrics"),
            served = &mut health => return served.context("cannot serve health"),
            served = &mut serve => return served.context("cannot serve the status"),
            turn = inbox.next(agent.has_backlog()) => turn?,
        };
        agent.receive(inbox.take_messages(BACKLOG.saturating_sub(agent.waiting())));
        act(&mut agent, turn)?;
    }
    if args.detach_on_exit {
        agent.end();
        let work = hooks_ended
            .await
            .context("the thread of the hooks ended")??;
        let removed = work.detach()?.len() + run_dir::clear(&args.run.run_dir).len();
        tracing::info!(removed, "stopped and detached; nothing is denied any more");
    } else {
        tracing::info!("stopped; denials stay until the lease ends, or the next agent takes over");
    }
    Ok(())
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
    let run = move || {
        let _runs: oneshot::Sender<()> = runs;
        runtime.block_on(future::pending::<()>());
    };
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .with_context(|| format!("cannot start a thread for {name}"))?;
    Ok((handle, ended))
}

/// The client, made on the thread that its requests are sent from.
async fn connect(api: &Handle, kubeconfig: Option<PathBuf>, pace: Pace) -> Result<Client> {
    let client = async move { Ok(pace.client(client::client(kubeconfig.as_deref(), None).await?)) };
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
    let mode_policy = args.fleet_config.as_ref();
    let watches = watch::start(&client, boot, &args.node_name, mode_policy, sender);
    (
        watches,
        Announcer::start(client, args.node_name.clone(), args.api.events),
    )
}

fn warn_of_old_flags(args: &AgentArgs) {
    if args.pod_scope.is_some() {
        tracing::warn!(
            "--pod-scope has no effect: every agent watches all pods. Remove it; the next release refuses it"
        );
    }
    for warning in args.actions.warnings() {
        tracing::warn!("--action: {warning}");
    }
}

/// Takes over the maps of an earlier process, with the hooks that it may have needed.
fn take_over(datapath: &mut Datapath, pin_dir: &Path) -> Result<Writer> {
    let mut writer = Writer::new(&mut datapath.ebpf)?;
    writer.config.lock_in(pin_dir);
    let inherited = writer.view.written();
    datapath.want_ingress(inherited.flows != 0 || inherited.socket_lb != 0);
    Ok(writer)
}

/// Loads the programs over the maps that are there, and those of Cilium that they look into.
fn load(args: &AgentArgs, nfct_at: u32) -> Result<Datapath> {
    let pins = &args.pins.pin_dir;
    Pins::make(pins)?;
    cilium::prepare(pins)?;
    let datapath = Datapath::load(pins, args.hooks, nfct_at)?.with_xdp(args.xdp)?;
    Ok(datapath.with_cgroup(cgroup(args.cgroup.as_deref())?))
}

/// Where a socket load balancer may be; `None` on a node without cgroup2, where none can be.
fn cgroup(given: Option<&Path>) -> Result<Option<PathBuf>> {
    if let Some(given) = given {
        ensure!(
            given.is_dir(),
            "--cgroup {}: no such directory",
            given.display()
        );
    }
    let found = find_cgroup2(given);
    if found.is_none() {
        tracing::info!("no cgroup2 is mounted there: no socket load balancer is looked for");
    }
    Ok(found)
}

/// The state at the start, restored from the pinned maps; it holds until everything is listed.
fn state(args: &AgentArgs, writer: &Writer, names: &Names, demotions: &Demotions) -> State {
    let settings = Settings {
        node: args.node_name.clone(),
        ipam: args.ipam,
        ranges: args.ranges.ranges(),
    };
    let mut state =
        State::with_numbers(settings, Numbers::after(writer.view.written().last_service));
    state.restore(writer.restored().clone());
    state.know_names(names.known().clone());
    demotions.restore(boot(), &mut state);
    state
}

/// Carries out a turn.
pub fn act(agent: &mut Agent, turn: Turn) -> Result<()> {
    match turn {
        Turn::Tick => agent.on_tick(),
        Turn::Node(event) => agent.on_node_event(event),
        Turn::Snapshot => agent.on_snapshot(),
        Turn::Work => agent.run_turn(),
        Turn::Question(question) => agent.on_question(question),
        Turn::Events(events) => agent.on_events(events),
    }
}

/// Locks the run directory: two agents would answer at the same socket.
fn lock(directory: &Path) -> Result<File> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the --run-dir {}", directory.display()))?;
    let path = directory.join(run_dir::LOCK);
    // Not through a link, and of another file nothing is removed.
    let mut options = File::options();
    let options = options
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(libc::O_NOFOLLOW);
    let file = options
        .open(&path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    file.try_lock().with_context(|| {
        format!(
            "another epguard agent holds {}: stop it, or give another --run-dir",
            path.display()
        )
    })?;
    Ok(file)
}
