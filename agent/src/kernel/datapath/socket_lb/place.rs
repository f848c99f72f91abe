//! Where one program around a load balancer belongs, and its link.

use super::found::{foreign, foreign_at, surrounds};
use crate::kernel::datapath::cgroup_links::{Cgroup, Order};
use crate::kernel::datapath::pins::Pins;
use crate::kernel::datapath::{bpf, cgroup_links, links};
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya_obj::generated::bpf_attach_type;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where one program belongs.
pub struct Place {
    pub hook: bpf_attach_type,
    pub program: String,
    pub cgroup: PathBuf,
    pub order: Order,
}

impl Place {
    pub fn is_before(&self) -> bool {
        self.program.contains("_before_")
    }

    /// Whether it runs before all foreign programs that run for the processes of this cgroup, or after those that are
    /// attached to the cgroup itself: programs of outer cgroups run last.
    pub fn is_in_order(&self, ebpf: &Ebpf, pins: &Pins) -> Result<bool> {
        let id = cgroup_links::loaded_id(ebpf, &self.program)?;
        let running = bpf::effective_cgroup_programs(&self.cgroup, self.hook)
            .with_context(|| format!("cannot list the programs that run for {}", self.cgroup.display()))?;
        if self.is_before() {
            let is_foreign = |id: &u32| foreign(*id, pins).is_some();
            return Ok(surrounds(&running, Some(id), None, is_foreign));
        }
        let attached = foreign_at(&self.cgroup, self.hook, pins)?;
        Ok(surrounds(&running, None, Some(id), |id| attached.contains_key(id)))
    }

    /// True if the link was taken over.
    pub fn attach(&self, ebpf: &mut Ebpf, pin: &Path) -> Result<bool> {
        let cgroup = Cgroup { id: inode(&self.cgroup)?, path: &self.cgroup };
        cgroup_links::attach_program(ebpf, &self.program, self.hook, cgroup, self.order, pin)
    }
}

pub fn is_attached(pin: &Path) -> Result<bool> {
    Ok(links::cgroup(pin)?.is_some_and(|cgroup| cgroup != 0))
}

/// Whether the pin is that of a program after the load balancer.
pub fn is_after(pin: &Path) -> bool {
    pin.to_string_lossy().contains("_after_")
}

pub fn inode(cgroup: &Path) -> Result<u64> {
    let metadata = cgroup.metadata();
    Ok(metadata.with_context(|| format!("cannot open {}", cgroup.display()))?.ino())
}
