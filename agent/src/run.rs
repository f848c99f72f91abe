//! `epguard agent`: every part wired to one loop that owns the state and the maps.

use crate::agent::Agent;
use crate::announce::Announcer;
use crate::cli::AgentArgs;
use crate::datapath::{self, Datapath};
use crate::events::Events;
use crate::fleet::{Fleet, Modes};
use crate::maps::{Writer, only_agent};
use crate::state::{Settings, Slots, State};
use crate::watch::Pace;
use crate::{lease, metrics, neighbours, netlink, status, telemetry, watch};
use anyhow::{Context as _, Result};
use epguard_common::Mode;
use std::fs::{self, File};
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

/// Facts waiting for the loop; the watches wait when it is full.
const BACKLOG: usize = 4096;

/// Runs until a signal, or until something fails that protects nobody any more.
pub async fn run(args: AgentArgs) -> Result<()> {
    telemetry::init(args.log_format, args.debug_datapath)?;
    let _only_one = lock(&args.run.run_dir)?;
    let rate = args
        .api
        .rate(watch::ids(args.pod_scope).len(), args.max_view_age)?;
    let pace = Pace::new(rate, args.api.burst);
    let client = pace.client(watch::client(args.kubeconfig.as_deref()).await?);
    let listener = metrics::bind(args.metrics.listen).await?;
    let _only_one_here = only_agent(&args.pins.pin_dir)?;
    let mut datapath = Datapath::load(&args.pins.pin_dir, args.hooks)?.with_xdp(args.xdp)?;
    let writer = Writer::new(&mut datapath.ebpf, datapath::netns_cookie()?)?;
    let mut writer = writer.lock_config(&args.pins.pin_dir)?;
    let flags = (args.mode, args.reasons.modes());
    let fleet = Fleet::new(args.fleet_config.clone(), flags, writer.configured()?);
    let Modes { mode, reasons, .. } = fleet.in_force();
    writer.configure(mode, reasons, args.debug_datapath)?;
    writer.choose(args.actions.actions(), args.actions.limits())?;
    writer.capture(args.actions.capture()?)?;
    if !datapath.hook_sockets(args.cgroups.scope()?)? {
        writer.forget_sockets()?;
    }
    if args.mode == Mode::Enforce {
        datapath.require_sockets()?;
    }
    let mut events = Events::new(&mut datapath.ebpf)?;
    if args.debug_datapath {
        tokio::spawn(crate::events::log(&mut datapath.ebpf)?);
    }

    let (tell, mut messages) = mpsc::channel(BACKLOG);
    let config_map = args.fleet_config.as_ref();
    let watches = watch::start(&client, args.pod_scope, &args.node_name, config_map, &tell);
    let (announce, mut interfaces) = mpsc::channel(BACKLOG);
    let mut follow = tokio::spawn(netlink::follow(announce.clone()));
    let (report, mut surveys) = mpsc::channel(1);
    neighbours::follow(datapath.own_programs()?, report).context("cannot start a thread")?;
    let (ask, mut questions) = mpsc::channel(1);
    let metrics = metrics::serve(listener, args.pins.pin_dir.clone(), ask.clone());
    let serve = status::serve(&args.run.run_dir, ask);
    tokio::pin!(metrics, serve);

    let settings = Settings {
        scope: args.pod_scope,
        node: args.node_name.clone(),
        ipam: args.ipam,
        ranges: args.ranges.ranges(),
    };
    let mut state = State::with_slots(settings, Slots::starting_at(fastrand::u16(..)));
    state.inherit(writer.found().clone());
    let announcer = Announcer::start(client, args.node_name.clone(), args.api.events);
    let mut agent = Agent::new(state, writer, datapath, (watches, pace), announcer, fleet, &args);
    let mut presence = tokio::spawn(netlink::presence(announce, agent.asks_for_presence()));
    let mut tick = interval(lease::period(args.lease, args.max_view_age));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    tracing::info!(node = args.node_name, mode = mode.as_str(), "started");
    loop {
        tokio::select! {
            biased;
            // Few, and each may be an interface without hooks.
            Some(event) = interfaces.recv() => agent.on_interface(event)?,
            Some(survey) = surveys.recv() => agent.on_survey(&survey)?,
            Some(message) = messages.recv() => {
                let mut batch = vec![message];
                while let Ok(message) = messages.try_recv() {
                    batch.push(message);
                }
                agent.on_messages(batch)?;
            }
            events = events.next() => agent.on_events(&events?)?,
            Some(question) = questions.recv() => agent.on_question(question)?,
            _ = tick.tick() => agent.on_tick()?,
            followed = &mut follow => followed.context("cannot follow the node's interfaces any more")?,
            followed = &mut presence => followed.context("cannot follow the node's routes any more")?,
            served = &mut metrics => served.context("cannot serve metrics")?,
            served = &mut serve => served.context("cannot serve the status")?,
            _ = terminate.recv() => break,
            _ = tokio::signal::ctrl_c() => break,
        }
        agent.remember();
    }
    if args.detach_on_exit {
        let removed = agent.detach()?.len();
        tracing::info!(removed, "stopped and detached; nothing is denied any more");
    } else {
        tracing::info!("stopped; denials stand until the lease ends, or the next agent takes over");
    }
    Ok(())
}

/// Two agents would answer at the same socket.
fn lock(run_dir: &Path) -> Result<File> {
    fs::create_dir_all(run_dir)
        .with_context(|| format!("cannot make the --run-dir {}", run_dir.display()))?;
    let path = run_dir.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    file.try_lock().with_context(|| {
        format!(
            "another epguard agent holds {}: stop it, or give another --run-dir",
            path.display()
        )
    })?;
    Ok(file)
}
