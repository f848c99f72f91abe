//! The five links of one cgroup: made, taken over, counted and removed together.

use super::bpf::{self, Target};
use super::links;
use super::object::{self, explain};
use super::pins::Pins;
use anyhow::{Context as _, Result, ensure};
use aya::Ebpf;
use aya::programs::{CgroupSock, CgroupSockAddr, Program, ProgramError, ProgramFd};
use aya_obj::generated::bpf_attach_type;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Programs on each cgroup. One without the others would note wrong intents.
pub const PROGRAMS: [(&str, bpf_attach_type); 5] = [
    ("epguard_socket", bpf_attach_type::BPF_CGROUP_INET_SOCK_CREATE),
    ("epguard_connect4", bpf_attach_type::BPF_CGROUP_INET4_CONNECT),
    ("epguard_connect6", bpf_attach_type::BPF_CGROUP_INET6_CONNECT),
    ("epguard_sendmsg4", bpf_attach_type::BPF_CGROUP_UDP4_SENDMSG),
    ("epguard_sendmsg6", bpf_attach_type::BPF_CGROUP_UDP6_SENDMSG),
];

/// The links that [`attach`] found on a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// All links of an earlier process, or of this one.
    AllLinks,
    /// No link.
    NoLink,
    /// Some links, or severed ones: the hooks missed calls.
    Gap,
}

/// Attaches all programs to the cgroup with this id: into its pinned links if there are any, else into new ones.
pub fn attach(ebpf: &mut Ebpf, pins: &Pins, id: u64, path: &Path) -> Result<Found> {
    let mut found = [0; 3];
    for (name, hook) in PROGRAMS {
        let pin = pins.cgroup_link(id, name);
        let was_there = pin.exists();
        let cgroup = Cgroup { id, path };
        let taken_over = attach_program(ebpf, name, hook, cgroup, Order::AfterOthers, &pin)?;
        found[usize::from(was_there) + usize::from(taken_over)] += 1;
    }
    Ok(match found {
        [_, 0, 0] => Found::NoLink,
        [0, 0, _] => Found::AllLinks,
        _ => Found::Gap,
    })
}

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

/// Whether no link is missing or severed.
pub fn is_attached(pins: &Pins, id: u64) -> Result<bool> {
    Ok(count(pins, id)? == PROGRAMS.len())
}

/// How many links are still attached to this cgroup.
pub fn count(pins: &Pins, id: u64) -> Result<usize> {
    let mut attached = 0;
    for (name, _) in PROGRAMS {
        let cgroup = links::cgroup(&pins.cgroup_link(id, name))?;
        attached += usize::from(cgroup == Some(id));
    }
    Ok(attached)
}

/// Detaches all programs. True if a link was there.
pub fn remove(pins: &Pins, id: u64) -> Result<bool> {
    let mut removed = false;
    for (name, _) in PROGRAMS {
        removed |= links::remove(&pins.cgroup_link(id, name))?;
    }
    Ok(removed)
}

/// Id of a program that is loaded.
pub fn loaded_id(ebpf: &Ebpf, name: &str) -> Result<u32> {
    let program = ebpf.program(name).with_context(|| format!("no program {name}"))?;
    Ok(program.info()?.id())
}

/// Loads a program, unless it is loaded already.
fn load(program: &mut Program) -> Result<&ProgramFd, ProgramError> {
    let loaded = if let Program::CgroupSock(program) = program {
        CgroupSock::load(program)
    } else {
        let program: &mut CgroupSockAddr = program.try_into()?;
        program.load()
    };
    match loaded {
        Ok(()) | Err(ProgramError::AlreadyLoaded) => program.fd(),
        Err(error) => Err(error),
    }
}
