//! Where one program around a load balancer belongs, and its link.

use super::found::{foreign, foreign_at, surrounds};
use crate::kernel::datapath::bpf::{self, Target};
use crate::kernel::datapath::links;
use crate::kernel::datapath::object::{explain, program};
use crate::kernel::datapath::pins::Pins;
use anyhow::{Context as _, Result, ensure};
use aya::Ebpf;
use aya::programs::{CgroupSockAddr, ProgramError};
use aya_obj::generated::{BPF_F_BEFORE, BPF_F_QUERY_EFFECTIVE, bpf_attach_type};
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where one program belongs.
pub struct Place {
    pub hook: bpf_attach_type,
    pub program: String,
    pub cgroup: PathBuf,
    /// Before all other programs of the cgroup, Linux 6.17; else a new link comes after those that
    /// are there already.
    pub is_first: bool,
}

impl Place {
    pub fn is_before(&self) -> bool {
        self.program.contains("_before_")
    }

    /// Whether it runs before all foreign programs that run for the processes of this cgroup, or
    /// after those that are attached to the cgroup itself: programs of outer cgroups run last.
    pub fn is_in_order(&self, ebpf: &mut Ebpf, pins: &Pins) -> Result<bool> {
        let id = program(ebpf, &self.program)?.info()?.id();
        let cannot = || {
            format!(
                "cannot list the programs that run for {}",
                self.cgroup.display()
            )
        };
        let cgroup = File::open(&self.cgroup).with_context(cannot)?;
        let running = bpf::query(
            Target::Cgroup(cgroup.as_fd()),
            self.hook,
            BPF_F_QUERY_EFFECTIVE,
        );
        let (running, _) = running.with_context(cannot)?;
        if self.is_before() {
            let is_foreign = |id: &u32| foreign(*id, pins).is_some();
            return Ok(surrounds(&running, Some(id), None, is_foreign));
        }
        let attached = foreign_at(&self.cgroup, self.hook, pins)?;
        Ok(surrounds(&running, None, Some(id), |id| {
            attached.contains_key(id)
        }))
    }

    /// Attaches the program: into its pinned link if there is one, else into a new one. True if the
    /// link was taken over.
    pub fn attach(&self, ebpf: &mut Ebpf, pin: &Path) -> Result<bool> {
        let id = inode(&self.cgroup)?;
        let cgroup = self.cgroup.display();
        let directory =
            File::open(&self.cgroup).with_context(|| format!("cannot open {cgroup}"))?;
        let same = directory
            .metadata()
            .is_ok_and(|metadata| metadata.ino() == id);
        ensure!(same, "{cgroup} has just been made again");
        let program: &mut CgroupSockAddr = program(ebpf, &self.program)?.try_into()?;
        match program.load() {
            Ok(()) | Err(ProgramError::AlreadyLoaded) => {}
            Err(error) => return Err(explain(error, &self.program)),
        }
        let target = (
            Target::Cgroup(directory.as_fd()),
            if self.is_first { BPF_F_BEFORE } else { 0 },
        );
        let is_sound = |link: &_| Ok(bpf::link_cgroup(link)? == id);
        links::attach(pin, program.fd()?.as_fd(), target, self.hook, is_sound)
            .with_context(|| format!("cannot attach {} to {cgroup}", self.program))
    }
}

/// Whether the link pinned here is attached to a cgroup, as far as the kernel shows it.
pub fn is_attached(pin: &Path) -> Result<bool> {
    let cgroup = bpf::open(pin)?.and_then(|link| bpf::link_cgroup(&link).ok());
    Ok(cgroup.is_some_and(|cgroup| cgroup != 0))
}

/// Whether the pin is that of a program after the load balancer.
pub fn is_after(pin: &Path) -> bool {
    pin.to_string_lossy().contains("_after_")
}

pub fn inode(cgroup: &Path) -> Result<u64> {
    let metadata = cgroup.metadata();
    Ok(metadata
        .with_context(|| format!("cannot open {}", cgroup.display()))?
        .ino())
}
