//! Links of programs at cgroups: made, or taken over.

use super::bpf::{self, Target};
use super::links;
use super::object::{self, explain};
use anyhow::{Context as _, Result, ensure};
use aya::Ebpf;
use aya::programs::{CgroupSockAddr, Program, ProgramError, ProgramFd};
use aya_obj::generated::bpf_attach_type;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A cgroup2 directory.
#[derive(Debug, Clone, Copy)]
pub struct Cgroup<'a> {
    /// Inode number of the directory.
    pub id: u64,
    pub path: &'a Path,
}

/// Where a new link stands among the programs of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Before all others. Linux 6.17.
    First,
    /// After those that are attached already.
    AfterOthers,
}

/// Attaches one program to a cgroup: into its pinned link if there is one, else into a new one. True if the link was
/// taken over.
pub fn attach_program(
    ebpf: &mut Ebpf,
    name: &str,
    hook: bpf_attach_type,
    cgroup: Cgroup<'_>,
    order: Order,
    pin: &Path,
) -> Result<bool> {
    let Cgroup { id, path } = cgroup;
    let directory = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let same = directory.metadata().is_ok_and(|metadata| metadata.ino() == id);
    ensure!(same, "{} has just been made again", path.display());
    let program = load(object::program(ebpf, name)?).map_err(|error| explain(error, name))?;
    let target = match order {
        Order::First => Target::CgroupFirst(directory.as_fd()),
        Order::AfterOthers => Target::Cgroup(directory.as_fd()),
    };
    let is_sound = |link: &_| Ok(bpf::link_cgroup(link)? == id);
    links::attach(pin, program.as_fd(), target, hook, is_sound)
        .with_context(|| format!("cannot attach {name} to {}", path.display()))
}

/// Id of a program that is loaded.
pub fn loaded_id(ebpf: &Ebpf, name: &str) -> Result<u32> {
    let program = ebpf.program(name).with_context(|| format!("no program {name}"))?;
    Ok(program.info()?.id())
}

/// Loads a program, unless it is loaded already.
fn load(program: &mut Program) -> Result<&ProgramFd, ProgramError> {
    let sock_addr: &mut CgroupSockAddr = program.try_into()?;
    match sock_addr.load() {
        Ok(()) | Err(ProgramError::AlreadyLoaded) => program.fd(),
        Err(error) => Err(error),
    }
}
