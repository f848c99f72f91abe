//! The hooks of the node's own sockets, on cgroups.
//!
//! The kernel keeps a socket in the cgroup in which it was made (`cgroup_sk_alloc`), even if its process moves to
//! another. So a socket is followed from its first call on, or never, as long as its cgroup keeps all five links.

use super::bpf;
use super::cgroup_links::{self, Found, PROGRAMS};
use super::cgroups::{self, Scope};
use super::links;
use super::outside::Outside;
use super::pins::Pins;
use crate::shared::status::{CgroupHooks, NodeSockets};
use anyhow::{Result, bail, ensure};
use aya::Ebpf;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long to wait before a cgroup that could not be hooked is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The cgroups that are hooked, and those that could not be.
#[derive(Debug)]
pub struct Sockets {
    scope: Scope,
    /// By cgroup id. Cgroups that were removed stay while sockets that were made there live.
    cgroups: BTreeMap<u64, Cgroup>,
    exclusive: Option<String>,
    outside: Outside,
}

#[derive(Debug)]
struct Cgroup {
    path: PathBuf,
    /// When the attachment failed, and why.
    failed: Option<(Instant, String)>,
}

impl Sockets {
    /// Hooks the cgroups: puts the programs into pinned links, or into new ones. False if the hooks may have missed
    /// calls of some sockets.
    ///
    /// Errors: the scope is no cgroup2 directory; the one cgroup that the operator named cannot be hooked.
    pub fn start(ebpf: &mut Ebpf, pins: &Pins, scope: Scope) -> Result<(Self, bool)> {
        let there = scope.cgroups()?;
        let mut unheard = false;
        for (id, pin) in pins.cgroup_links()? {
            if !there.contains_key(&id) {
                let link = links::open(&pin)?;
                unheard |= link.is_some_and(|link| bpf::link_cgroup(&link).ok() != Some(0));
                links::remove(&pin)?;
            }
        }
        let mut sockets = Self {
            scope,
            cgroups: BTreeMap::new(),
            exclusive: None,
            outside: Outside::default(),
        };
        unheard |= !sockets.attach(ebpf, pins, &there, true)?;
        if let Scope::Only(path) = &sockets.scope
            && let Some(error) = sockets.first_error()
        {
            bail!("cannot follow the sockets of {}: {error}", path.display());
        }
        Ok((sockets, !unheard))
    }

    /// Hooks new cgroups, and those whose links were severed. False if the hooks may have missed calls of some sockets.
    pub fn follow(&mut self, ebpf: &mut Ebpf, pins: &Pins) -> Result<bool> {
        let there = self.scope.cgroups()?;
        let nothing_unheard = self.release(pins, &there)? & self.attach(ebpf, pins, &there, false)?;
        if let Scope::ChildrenOf(root) = &self.scope {
            self.outside.look(root);
        }
        Ok(nothing_unheard)
    }

    /// The cgroups that are hooked.
    pub const fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Errors: no cgroup is hooked, with the cause. Beside a program that runs only without others none can be, and the rest of
    /// epguard does its work: the status names that program.
    pub fn require_one(&self) -> Result<()> {
        if self.exclusive.is_some() {
            return Ok(());
        }
        let attached = self.cgroups.values().any(|cgroup| cgroup.failed.is_none());
        let path = self.scope.path().display();
        ensure!(
            attached,
            "no socket of the node's own processes can be followed below {path}: {}",
            self.first_error()
                .unwrap_or_else(|| "it has no cgroups (pass --cgroup with the directory itself)".to_owned())
        );
        Ok(())
    }

    /// Which of these cgroups are hooked or below a hooked one.
    pub fn follows(&self, wanted: &BTreeSet<u64>) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        for (id, cgroup) in self.cgroups.iter().filter(|(_, cgroup)| cgroup.failed.is_none()) {
            if found.len() == wanted.len() {
                break;
            }
            found.extend(wanted.get(id));
            cgroups::find_below(&cgroup.path, wanted, &mut found);
        }
        found
    }

    /// The cgroups with their errors, for the status.
    pub fn status(&self) -> NodeSockets {
        let cgroups = self.cgroups.values().map(|cgroup| CgroupHooks {
            path: cgroup.path.display().to_string(),
            attached: cgroup.failed.is_none(),
            error: cgroup.failed.as_ref().map(|(_, error)| error.clone()),
        });
        NodeSockets {
            root: self.scope.path().display().to_string(),
            cgroups: cgroups.collect(),
            exclusive: self.exclusive.clone(),
            outside: self.outside.found().to_vec(),
            ..NodeSockets::default()
        }
    }

    fn first_error(&self) -> Option<String> {
        if let Some(program) = &self.exclusive {
            let text = "was attached without BPF_F_ALLOW_MULTI, so it runs only without others";
            return Some(format!("{program} {text}"));
        }
        let mut failed = self.cgroups.values().filter_map(|cgroup| cgroup.failed.as_ref());
        failed.next().map(|(_, error)| error.clone())
    }

    fn attach(
        &mut self,
        ebpf: &mut Ebpf,
        pins: &Pins,
        there: &BTreeMap<u64, PathBuf>,
        first: bool,
    ) -> Result<bool> {
        if !self.gives_way(pins)? {
            return Ok(false);
        }
        let mut nothing_unheard = true;
        for (&id, path) in there {
            let known = self.cgroups.get(&id);
            let was_attached = known.is_some_and(|cgroup| cgroup.failed.is_none());
            let failed = known.and_then(|cgroup| cgroup.failed.as_ref());
            if was_attached && cgroup_links::is_attached(pins, id)?
                || failed.is_some_and(|(at, _)| at.elapsed() < RETRY_INTERVAL)
            {
                continue;
            }
            if was_attached {
                tracing::warn!(cgroup = %path.display(), "the hooks of sockets were removed by another process: attaching again");
            }
            let failed = match cgroup_links::attach(ebpf, pins, id, path) {
                Ok(found) => {
                    nothing_unheard &= match found {
                        Found::AllLinks => true,
                        // Sockets that were made between the five attachments may be known to only some of the hooks.
                        Found::NoLink => !first && !was_attached && !cgroups::is_populated(path),
                        Found::Gap => false,
                    };
                    None
                }
                Err(error) => {
                    // The hooks noted calls at an existing link until now.
                    nothing_unheard &= !cgroup_links::remove(pins, id)?;
                    if !path.exists() {
                        self.cgroups.remove(&id);
                        continue;
                    }
                    let error = format!("{error:#}");
                    if failed.is_none_or(|(_, old)| *old != error) {
                        tracing::error!(cgroup = %path.display(), error, "the sockets made in this cgroup are not followed; trying again");
                    }
                    Some((Instant::now(), error))
                }
            };
            let path = path.clone();
            self.cgroups.insert(id, Cgroup { path, failed });
        }
        Ok(nothing_unheard)
    }

    /// Detaches our programs beside one that runs only without others. False while it is there, and at once after it
    /// has gone.
    fn gives_way(&mut self, pins: &Pins) -> Result<bool> {
        let exclusive = self
            .scope
            .exclusive_program_above(&PROGRAMS.map(|(_, hook)| hook))?;
        match (&self.exclusive, &exclusive) {
            (None, None) => return Ok(true),
            (None, Some(program)) => {
                tracing::error!(
                    program,
                    "it was attached without BPF_F_ALLOW_MULTI, and the kernel runs it only where no other program is: \
                     the node's own sockets are not followed any more"
                );
                for (_, pin) in pins.cgroup_links()? {
                    links::remove(&pin)?;
                }
                self.cgroups.clear();
            }
            _ => {}
        }
        self.exclusive = exclusive;
        Ok(false)
    }

    /// Drops removed cgroups once no socket that was made there lives: then the kernel severs the links
    /// (`cgroup_bpf_release`). False if only a part is severed.
    fn release(&mut self, pins: &Pins, there: &BTreeMap<u64, PathBuf>) -> Result<bool> {
        let mut nothing_unheard = true;
        let gone: Vec<u64> = self
            .cgroups
            .keys()
            .filter(|id| !there.contains_key(*id))
            .copied()
            .collect();
        for id in gone {
            if cgroup_links::is_attached(pins, id)? {
                continue;
            }
            // Counted again: the kernel severs all at once, and may have done so in the middle of the first count.
            nothing_unheard &= cgroup_links::count(pins, id)? == 0;
            cgroup_links::remove(pins, id)?;
            self.cgroups.remove(&id);
        }
        Ok(nothing_unheard)
    }
}
