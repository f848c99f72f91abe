//! Where one program around a load balancer belongs, and its link.

use super::found::is_in_order;
use crate::kernel::datapath::bpf::{self, Target};
use crate::kernel::datapath::object::explain;
use crate::kernel::datapath::pins::Pins;
use crate::kernel::datapath::{cgroup_links, links};
use anyhow::{Context as _, Result, ensure};
use aya::Ebpf;
use aya_obj::generated::bpf_attach_type;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where one program belongs.
pub struct Place {
    pub hook: bpf_attach_type,
    pub program: String,
    pub cgroup: PathBuf,
    pub first: bool,
}

impl Place {
    pub fn is_before(&self) -> bool {
        self.program.contains("_before_")
    }

    pub fn is_in_order(&self, ebpf: &Ebpf, pins: &Pins) -> Result<bool> {
        let id = Some(cgroup_links::loaded_id(ebpf, &self.program)?);
        let (before, after) = if self.is_before() { (id, None) } else { (None, id) };
        is_in_order(&self.cgroup, self.hook, before, after, pins)
    }

    /// True if the link was taken over.
    pub fn attach(&self, ebpf: &mut Ebpf, pin: &Path) -> Result<bool> {
        let (name, path) = (&self.program, self.cgroup.display());
        let directory = File::open(&self.cgroup).with_context(|| format!("cannot open {path}"))?;
        let id = directory.metadata()?.ino();
        ensure!(inode(&self.cgroup)? == id, "{path} has just been made again");
        let program = ebpf
            .program_mut(name)
            .with_context(|| format!("no program {name}"))?;
        let program = cgroup_links::load(program).map_err(|error| explain(error, name))?;
        let target = if self.first {
            Target::CgroupFirst(directory.as_fd())
        } else {
            Target::Cgroup(directory.as_fd())
        };
        links::attach(pin, program.as_fd(), target, self.hook, |link| {
            Ok(bpf::link_cgroup(link)? == id)
        })
        .with_context(|| format!("cannot attach {name} to {path}"))
    }
}

/// Whether the kernel does not know a flag.
pub fn is_invalid(error: &anyhow::Error) -> bool {
    let invalid = |cause: &io::Error| cause.raw_os_error() == Some(libc::EINVAL);
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(invalid))
}

pub fn is_attached(pin: &Path) -> Result<bool> {
    let link = bpf::open(pin).with_context(|| format!("cannot open the pin {}", pin.display()))?;
    Ok(link.is_some_and(|link| bpf::link_cgroup(&link).is_ok_and(|cgroup| cgroup != 0)))
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
