//! Takeover: how a new agent continues with what an earlier one left on the node.
//!
//! Programs and maps outlive their agent, and deny until its lease ends. No packet may pass while
//! the next agent starts, and nothing may be denied for longer than the evidence allows. So:
//!
//! 1. The agent locks `--run-dir` ([`lock_run_dir`]) and `--pin-dir` (`kernel/maps/lock.rs`): two
//!    agents would write the same maps.
//! 2. It loads its programs over the pinned maps (`kernel/datapath/object.rs`). A map of another
//!    layout starts empty.
//! 3. It reads these maps ([`Writer::new`]). The denials in them stay in force until the lease of
//!    the earlier agent ends (`VIEW`; [`Lease::inheriting`](super::lease::Lease::inheriting)).
//! 4. It sets the modes and actions. Those of the mode policy stay as the earlier agent left them
//!    until the policy is read ([`NodeModePolicy::new`]).
//! 5. The state begins with the restored denials, with the names of their pods, and with the
//!    Services that are only observed ([`restored_state`]). Until everything is listed, the agent
//!    only removes what a fact contradicts (`agent/mod.rs`, `install`); from then on the maps hold
//!    what this agent has proven itself.
//! 6. The hooks of each interface get the new programs within the same links
//!    (`kernel/datapath/links.rs`), so that every packet meets exactly one program. Ingress hooks
//!    stay for ten minutes if the earlier agent may have needed them.
//! 7. Once all interfaces are hooked, it removes what the earlier agent left elsewhere
//!    ([`Attachments::remove_leftovers`](super::attachments::Attachments::remove_leftovers)).

use crate::daemon::args::AgentArgs;
use crate::daemon::demotion::Demotions;
use crate::daemon::mode_policy::{Actions, Modes, NodeModePolicy};
use crate::daemon::report::Names;
use crate::daemon::translators::TranslatorFollower;
use crate::kernel::datapath::{Datapath, Pins, find_cgroup2};
use crate::kernel::maps::Writer;
use crate::kernel::{cilium, conntrack};
use crate::shared::clock::boot;
use crate::shared::run_dir;
use anyhow::{Context as _, Result, ensure};
use epguard_common::Config;
use epguard_core::state::{Numbers, Settings, State};
use nix::libc;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The kernel's part of an agent, taken over or new.
pub struct Takeover {
    /// The loaded programs. Nothing is hooked yet.
    pub datapath: Datapath,
    /// The maps, as the earlier agent left them.
    pub writer: Writer,
    /// What translates Services on this node.
    pub translators: TranslatorFollower,
    /// The modes in force.
    pub mode_policy: NodeModePolicy,
}

impl Takeover {
    /// Loads the programs, takes over the maps of an earlier agent, and sets the modes and actions
    /// of this one.
    ///
    /// Errors: the programs cannot be loaded, or a map cannot be read or written.
    pub fn new(args: &AgentArgs) -> Result<Self> {
        let pin_dir = &args.pins.pin_dir;
        let nfct = conntrack::nfct_at();
        let mut datapath = load_programs(args, nfct.as_ref().copied().unwrap_or(0))?;
        let mut writer = Writer::new(&mut datapath.ebpf)?;
        writer.config.lock_in(pin_dir);
        let earlier = writer.view.written();
        datapath.want_ingress(earlier.flows != 0 || earlier.socket_lb != 0);
        let mut translators = TranslatorFollower::new(&nfct, &args.cilium_maps, pin_dir);
        translators.follow()?;
        let mode_policy = set_modes_and_actions(args, &mut writer)?;
        set_limits(args, &mut writer)?;
        Ok(Self {
            datapath,
            writer,
            translators,
            mode_policy,
        })
    }
}

/// Locks the run directory: two agents would answer at the same socket.
pub fn lock_run_dir(directory: &Path) -> Result<File> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the --run-dir {}", directory.display()))?;
    let path = directory.join(run_dir::LOCK);
    // Does not follow a link, and leaves the content of another file.
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(libc::O_NOFOLLOW)
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

/// The state at the start, restored from the pinned maps; it holds until everything is listed.
pub fn restored_state(
    args: &AgentArgs,
    writer: &Writer,
    names: &Names,
    demotions: &Demotions,
) -> State {
    let settings = Settings {
        node: args.node_name.clone(),
        ipam: args.ipam,
        ranges: args.ranges.ranges(),
    };
    let numbers = Numbers::after(writer.view.written().last_service);
    let mut state = State::with_numbers(settings, numbers);
    state.restore(writer.restored().clone());
    state.know_names(names.known().clone());
    demotions.restore(boot(), &mut state);
    state
}

/// Loads the programs over the maps that are pinned, and those of Cilium that they look into.
fn load_programs(args: &AgentArgs, nfct_at: u32) -> Result<Datapath> {
    let pin_dir = &args.pins.pin_dir;
    Pins::make(pin_dir)?;
    cilium::prepare(pin_dir)?;
    let datapath = Datapath::load(pin_dir, args.hooks, nfct_at)?.with_xdp(args.xdp)?;
    Ok(datapath.with_cgroup(find_cgroup(args.cgroup.as_deref())?))
}

/// Where a socket load balancer may be; `None` on a node without cgroup2, where none can be.
fn find_cgroup(given: Option<&Path>) -> Result<Option<PathBuf>> {
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

/// Writes the modes and actions that are in force before the mode policy is read.
fn set_modes_and_actions(args: &AgentArgs, writer: &mut Writer) -> Result<NodeModePolicy> {
    let flags = Modes::of_flags(args.mode, args.reasons.modes());
    let earlier = writer.config.read_config()?;
    let flag_actions = Actions::of_flags(args.actions.actions());
    let policy = NodeModePolicy::new(args.mode_policy.clone(), flags, flag_actions, &earlier);
    let modes = policy.in_force();
    let config = &mut writer.config;
    config.configure(modes.mode, modes.reasons, modes.source.is_mode_policy())?;
    let actions = policy.actions();
    config.set_actions(actions.actions, actions.are_of_policy())?;
    Ok(policy)
}

/// Writes the limits of answers, and whether the programs log.
fn set_limits(args: &AgentArgs, writer: &mut Writer) -> Result<()> {
    let limits = args.actions.limits();
    let debug = args.debug_datapath.into();
    writer.config.change(|config| Config {
        limits,
        debug,
        ..config
    })
}
