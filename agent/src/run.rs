//! `epguard agent`: every part wired to one loop that owns the state and the maps.

use crate::agent::Agent;
use crate::announce::Announcer;
use crate::cli::{AgentArgs, cgroup2_mount};
use crate::datapath::{self, Datapath};
use crate::events::Events;
use crate::maps::Writer;
use crate::state::{Settings, Slots, State};
use crate::watch::Pace;
use crate::{lease, metrics, netlink, status, telemetry, watch};
use anyhow::{Context as _, Result};
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
    let mut datapath = Datapath::load(&args.pins.pin_dir, args.hooks)?.with_xdp(args.xdp)?;
    let mut writer = Writer::new(&mut datapath.ebpf, datapath::netns_cookie()?)?;
    // What the fleet wanted of an earlier process stands until it is heard again.
    let before = args.fleet_config.as_ref().and(writer.configured()?);
    let (mode, reasons) = before.unwrap_or((args.mode, args.reasons.modes()));
    writer.configure(mode, reasons, args.debug_datapath)?;
    writer.choose(args.actions.actions(), args.actions.limits())?;
    writer.capture(args.actions.capture()?)?;
    let cgroup = args.cgroup.clone().map_or_else(cgroup2_mount, Ok)?;
    if !datapath.hook_sockets(&cgroup)? {
        writer.forget_sockets()?;
    }
    let mut events = Events::new(&mut datapath.ebpf)?;
    if args.debug_datapath {
        tokio::spawn(crate::events::log(&mut datapath.ebpf)?);
    }

    let (tell, mut messages) = mpsc::channel(BACKLOG);
    let fleet = args.fleet_config.as_ref();
    let watches = watch::start(&client, args.pod_scope, &args.node_name, fleet, &tell);
    let (announce, mut interfaces) = mpsc::channel(BACKLOG);
    let mut follow = tokio::spawn(netlink::follow(announce.clone()));
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
    let mut agent = Agent::new(state, writer, datapath, (watches, pace), announcer, &args);
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

/// Two agents on one node would fight for the same maps.
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
