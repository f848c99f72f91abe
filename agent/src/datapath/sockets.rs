//! The hooks of the node's own sockets, on the root cgroup.

use super::bpf::{self, Target};
use super::links;
use super::object::explain;
use super::pins::Pins;
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::programs::{CgroupSock, CgroupSockAddr, Program, ProgramError, ProgramFd};
use aya_obj::generated::bpf_attach_type;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Programs on the root cgroup.
const PROGRAMS: [(&str, bpf_attach_type); 5] = [
    ("epguard_socket", bpf_attach_type::BPF_CGROUP_INET_SOCK_CREATE),
    ("epguard_connect4", bpf_attach_type::BPF_CGROUP_INET4_CONNECT),
    ("epguard_connect6", bpf_attach_type::BPF_CGROUP_INET6_CONNECT),
    ("epguard_sendmsg4", bpf_attach_type::BPF_CGROUP_UDP4_SENDMSG),
    ("epguard_sendmsg6", bpf_attach_type::BPF_CGROUP_UDP6_SENDMSG),
];

/// Loads the programs and puts them into the pinned links, or into new ones. True if all were taken over: then sockets
/// have been followed without a pause.
pub fn attach(ebpf: &mut Ebpf, pins: &Pins, cgroup: &Path) -> Result<bool> {
    let (directory, id) = open(cgroup)?;
    let mut taken_over = true;
    for (name, attach_type) in PROGRAMS {
        let program = ebpf
            .program_mut(name)
            .with_context(|| format!("no program {name}"))?;
        let program = load(program).map_err(|error| explain(error, name))?;
        let target = Target::Cgroup(directory.as_fd());
        taken_over &= links::attach(
            &pins.cgroup_link(name),
            program.as_fd(),
            target,
            attach_type,
            |link| Ok(bpf::link_cgroup(link)? == id),
        )
        .with_context(|| {
            format!(
                "cannot attach {name} to {}: is it a cgroup2 mount?",
                cgroup.display()
            )
        })?;
    }
    Ok(taken_over)
}

/// Whether every link is where [`attach`] left it.
pub fn are_attached(pins: &Pins, cgroup: &Path) -> Result<bool> {
    let (_, id) = open(cgroup)?;
    for (name, _) in PROGRAMS {
        let pin = pins.cgroup_link(name);
        let link = bpf::open(&pin).with_context(|| format!("cannot open the pin {}", pin.display()))?;
        if link.is_none_or(|link| bpf::link_cgroup(&link).ok() != Some(id)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A cgroup2 mount and its inode number.
fn open(cgroup: &Path) -> Result<(File, u64)> {
    let directory =
        File::open(cgroup).with_context(|| format!("cannot open the cgroup2 mount {}", cgroup.display()))?;
    let metadata = directory.metadata();
    let metadata = metadata.with_context(|| format!("cannot read {}", cgroup.display()))?;
    Ok((directory, metadata.ino()))
}

/// Loads a program, once.
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
