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

/// Loads the programs and puts them into the pinned links, or into new ones.
pub fn attach(ebpf: &mut Ebpf, pins: &Pins, cgroup: &Path) -> Result<()> {
    let directory =
        File::open(cgroup).with_context(|| format!("cannot open the cgroup2 mount {}", cgroup.display()))?;
    let id = directory
        .metadata()
        .with_context(|| format!("cannot read {}", cgroup.display()))?
        .ino();
    for (name, attach_type) in PROGRAMS {
        let program = ebpf
            .program_mut(name)
            .with_context(|| format!("no program {name}"))?;
        let program = load(program).map_err(|error| explain(error, name))?;
        let target = Target::Cgroup(directory.as_fd());
        links::attach(
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
    Ok(())
}

fn load(program: &mut Program) -> Result<&ProgramFd, ProgramError> {
    if let Program::CgroupSock(program) = program {
        CgroupSock::load(program)?;
        return program.fd();
    }
    let program: &mut CgroupSockAddr = program.try_into()?;
    program.load()?;
    program.fd()
}
