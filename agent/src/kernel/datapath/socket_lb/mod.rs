//! Hooks before and after a socket load balancer's programs. Without such programs nothing is
//! attached.
//!
//! At one hook the kernel runs the programs of inner cgroups first, then those of outer ones, each
//! in the order of their list (`compute_effective_progs` in kernel/bpf/cgroup.c). A new link comes
//! last in its cgroup, or with `BPF_F_BEFORE` (Linux 6.17) first. So the load balancer's own cgroup
//! takes both hooks; on older kernels each child of it takes the one before.

mod found;
mod place;

use super::bpf::failed_with;
use super::links;
use super::pins::Pins;
use crate::shared::status::SocketLb;
use anyhow::{Result, bail, ensure};
use aya::Ebpf;
use aya::programs::ProgramType;
use aya::sys::{BpfHelper, is_helper_supported};
use aya_obj::generated::bpf_attach_type;
pub use found::find_cgroup2;
use found::{Found, children, exclusive_program, find_load_balancer, foreign_at};
use nix::libc;
use place::{Place, inode, is_after, is_attached};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to wait before hooks that failed, or that run in the wrong order, are attached again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The kernel's hooks, with the names of our programs.
const HOOKS: [(bpf_attach_type, &str); 4] = [
    (bpf_attach_type::BPF_CGROUP_INET4_CONNECT, "connect4"),
    (bpf_attach_type::BPF_CGROUP_INET6_CONNECT, "connect6"),
    (bpf_attach_type::BPF_CGROUP_UDP4_SENDMSG, "sendmsg4"),
    (bpf_attach_type::BPF_CGROUP_UDP6_SENDMSG, "sendmsg6"),
];

/// The load balancer that was found last, and the hooks around it.
#[derive(Debug, Default)]
pub struct SocketLbHooks {
    /// The status, without [`SocketLb::refuses`]. The hooks are attached and in order if it is in
    /// force.
    pub shown: SocketLb,
    /// Pins of the links that have this process' programs.
    ours: BTreeSet<PathBuf>,
    /// True once the kernel has refused `BPF_F_BEFORE`.
    is_older: bool,
    tried: Option<Instant>,
}

/// What came of one look at all places.
#[derive(Default)]
struct Looked {
    /// The hooks cannot be relied on in this moment, and why.
    down: Option<String>,
    /// Calls of some cgroups are not judged, and why.
    partly: Option<String>,
    /// A program after the load balancer has just got a new link, or lost one.
    new: bool,
}

impl SocketLbHooks {
    /// Looks for a load balancer at this cgroup and above it, hooks it, and checks the order in
    /// which the programs run. Removes the hooks once it has gone. An error at the hooks is a part
    /// of the status.
    ///
    /// Calls may pass while a program after the load balancer gets a new link, so the hooks are in
    /// force from the next look on, and a link that was in force is made anew only after a look
    /// that has ended that.
    ///
    /// Errors: the programs of a cgroup cannot be listed, or a link cannot be removed.
    pub fn follow(&mut self, ebpf: &mut Ebpf, pins: &Pins, at: &Path) -> Result<()> {
        // A load balancer connects: programs that only send do not make one.
        let connect = [HOOKS[0].0, HOOKS[1].0];
        let Some(Found { cgroup, programs }) = find_load_balancer(at, &connect, pins)? else {
            self.shown = SocketLb::default();
            return self.keep_only(pins, &BTreeSet::new());
        };
        if self.shown.programs != programs {
            tracing::info!(?programs, cgroup = %cgroup.display(), "a socket load balancer is on this node");
            self.tried = None;
        }
        self.shown.programs = programs;
        self.shown.cgroup = cgroup.display().to_string();
        let looked = self
            .surround(ebpf, pins, &cgroup)
            .unwrap_or_else(|error| Looked {
                down: Some(format!("{error:#}")),
                ..Looked::default()
            });
        let in_force = looked.down.is_none() && !looked.new;
        let problem = looked.down.or(looked.partly);
        if let Some(problem) = &problem
            && self.shown.problem.as_ref() != Some(problem)
        {
            tracing::error!(
                problem,
                "calls that the socket load balancer translates are not judged"
            );
        }
        if in_force && !self.shown.in_force {
            tracing::info!(before = self.shown.before, "hooked before and after it");
        }
        self.shown.in_force = in_force;
        self.shown.problem = problem;
        Ok(())
    }

    fn surround(&mut self, ebpf: &mut Ebpf, pins: &Pins, cgroup: &Path) -> Result<Looked> {
        if let Some(program) = exclusive_program(cgroup, &HOOKS.map(|(hook, _)| hook))? {
            self.keep_only(pins, &BTreeSet::new())?;
            bail!(
                "{program} was attached without BPF_F_ALLOW_MULTI, so it runs only where no other program is"
            );
        }
        let places = self.places(cgroup, pins)?;
        let mut wanted = BTreeSet::new();
        let mut looked = Looked::default();
        let mut judged = BTreeSet::new();
        let may_try = self
            .tried
            .is_none_or(|tried| tried.elapsed() >= RETRY_INTERVAL);
        for place in &places {
            let Ok(id) = inode(&place.cgroup) else {
                continue; // The cgroup has just gone.
            };
            let pin = pins.socket_lb_link(id, &place.program);
            wanted.insert(pin.clone());
            match self.keep(ebpf, pins, place, &pin, may_try) {
                Ok(_) if place.is_before() => {
                    judged.insert(place.hook as u32);
                }
                Ok(taken_over) => looked.new |= !taken_over,
                // The kernel does not know the flag.
                Err(error) if place.is_first && failed_with(&error, &[libc::EINVAL]) => {
                    self.is_older = true;
                    let again = self.surround(ebpf, pins, cgroup)?;
                    let new = again.new | looked.new;
                    return Ok(Looked { new, ..again });
                }
                Err(_) if !place.cgroup.exists() => {}
                Err(error) if place.is_before() && !place.is_first => {
                    looked.partly.get_or_insert(format!("{error:#}"));
                }
                Err(error) => {
                    looked.down.get_or_insert(format!("{error:#}"));
                }
            }
        }
        if places
            .iter()
            .any(|place| !judged.contains(&(place.hook as u32)))
        {
            let partly = looked.partly.take();
            looked.down.get_or_insert_with(|| {
                partly.unwrap_or_else(|| {
                    format!("no cgroup in {} can be hooked before it", cgroup.display())
                })
            });
        }
        // Where a hook ends, calls are missed from now on.
        looked.new |= self
            .ours
            .iter()
            .any(|pin| !wanted.contains(pin) && is_after(pin));
        self.keep_only(pins, &wanted)?;
        Ok(looked)
    }

    /// Where the programs belong now: at the hooks that the load balancer uses. At another one
    /// Cilium with its IPv4 or IPv6 switched off would detach all programs, and fail at a link.
    fn places(&mut self, cgroup: &Path, pins: &Pins) -> Result<Vec<Place>> {
        let first = !self.is_older;
        let before = if first {
            vec![cgroup.to_owned()]
        } else {
            children(cgroup)?
        };
        (if first { "root" } else { "children" }).clone_into(&mut self.shown.before);
        let mut places = Vec::new();
        for (hook, name) in HOOKS {
            if foreign_at(cgroup, hook, pins)?.is_empty() {
                continue;
            }
            // The one after comes first: without it the one before does nothing.
            places.push(Place {
                hook,
                program: format!("epguard_after_{name}"),
                cgroup: cgroup.to_owned(),
                is_first: false,
            });
            for cgroup in &before {
                places.push(Place {
                    hook,
                    program: format!("epguard_before_{name}"),
                    cgroup: cgroup.clone(),
                    is_first: first,
                });
            }
        }
        Ok(places)
    }

    /// Attaches one program, and puts it into its place again after a restart of the load balancer.
    ///
    /// False if it has a new link.
    ///
    /// Errors: it is not there, or does not run where it belongs.
    fn keep(
        &mut self,
        ebpf: &mut Ebpf,
        pins: &Pins,
        place: &Place,
        pin: &Path,
        may_try: bool,
    ) -> Result<bool> {
        let known = self.ours.contains(pin);
        let attached = known && is_attached(pin)?;
        if attached && place.is_in_order(ebpf, pins)? {
            return Ok(true);
        }
        // Without the program before the load balancer the one after it ends the socket's
        // connection.
        let ends_first = self.shown.in_force && !place.is_before();
        if known && (ends_first || !may_try) {
            bail!(
                "{} does not run {} the load balancer's programs at {}; trying again every {} seconds",
                place.program,
                if place.is_before() { "before" } else { "after" },
                place.cgroup.display(),
                RETRY_INTERVAL.as_secs()
            );
        }
        if known {
            self.tried = Some(Instant::now());
            links::remove(pin)?;
        }
        let taken_over = place.attach(ebpf, pin)?;
        self.ours.insert(pin.to_owned());
        ensure!(
            place.is_in_order(ebpf, pins)?,
            "{} runs on the wrong side of the load balancer's programs at {}",
            place.program,
            place.cgroup.display()
        );
        Ok(taken_over)
    }

    /// Removes all other links.
    fn keep_only(&mut self, pins: &Pins, wanted: &BTreeSet<PathBuf>) -> Result<()> {
        for pin in pins.socket_lb_links()? {
            if !wanted.contains(&pin) {
                links::remove(&pin)?;
            }
        }
        self.ours.retain(|pin| wanted.contains(pin));
        Ok(())
    }
}

/// Whether programs at these hooks may set the error of the call (`bpf_set_retval`, Linux 6.1);
/// else it is always `EPERM`.
pub fn can_set_error() -> bool {
    is_helper_supported(ProgramType::CgroupSockAddr, BpfHelper::BPF_FUNC_set_retval)
        .unwrap_or(false)
}
