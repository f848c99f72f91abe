//! The programs, loaded and attached.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result};
use aya::Ebpf;
use aya::programs::CgroupSockAddr;
use aya_obj::generated::bpf_attach_type;
use epguard::kernel::datapath::bpf;

use crate::neighbour::{load, program};

const PROGRAMS: [(&str, bpf_attach_type); 8] = [
    ("sock4_connect", bpf_attach_type::BPF_CGROUP_INET4_CONNECT),
    ("sock6_connect", bpf_attach_type::BPF_CGROUP_INET6_CONNECT),
    ("sock4_sendmsg", bpf_attach_type::BPF_CGROUP_UDP4_SENDMSG),
    ("sock6_sendmsg", bpf_attach_type::BPF_CGROUP_UDP6_SENDMSG),
    ("sock4_recvmsg", bpf_attach_type::BPF_CGROUP_UDP4_RECVMSG),
    ("sock6_recvmsg", bpf_attach_type::BPF_CGROUP_UDP6_RECVMSG),
    ("sock4_getpeername", bpf_attach_type::BPF_CGROUP_INET4_GETPEERNAME),
    ("sock6_getpeername", bpf_attach_type::BPF_CGROUP_INET6_GETPEERNAME),
];

/// Maps by the names of their pins. The two of the reverse map have Cilium's, where other programs look for them.
const MAPS: [(&str, &str); 7] = [
    ("NAMESPACES", "NAMESPACES"),
    ("SOCKET_SERVICES", "SOCKET_SERVICES"),
    ("SOCKET_SLOTS", "SOCKET_SLOTS"),
    ("SOCKET_BACKENDS", "SOCKET_BACKENDS"),
    ("SOCKET_AFFINITY", "SOCKET_AFFINITY"),
    ("REVERSE4", "cilium_lb4_reverse_sk"),
    ("REVERSE6", "cilium_lb6_reverse_sk"),
];

/// Loads the programs over the maps under the pin folder; the maps are made if they are not pinned yet.
pub(super) fn load_programs(pins: &Path) -> Result<Ebpf> {
    let mut object = load(pins, &MAPS)?;
    for (name, _) in PROGRAMS {
        let result = program::<CgroupSockAddr>(&mut object, name)?.load();
        result.with_context(|| format!("cannot load the load balancer's program {name}"))?;
    }
    Ok(object)
}

/// The attached programs, one link each. No link is pinned: the kernel detaches them when this process ends.
#[derive(Debug)]
pub(super) struct Hooks(Vec<OwnedFd>);

impl Hooks {
    /// Attaches the programs to a cgroup behind those that are there, or puts them into the links of `old`, in which there is
    /// a program at each moment.
    pub(super) fn attach(object: &mut Ebpf, cgroup: &Path, old: Option<Self>) -> Result<Self> {
        let directory = File::open(cgroup).with_context(|| format!("cannot open {}", cgroup.display()))?;
        let mut old = old.into_iter().flat_map(|old| old.0);
        let mut links = Vec::new();
        for (name, hook) in PROGRAMS {
            let program = program::<CgroupSockAddr>(object, name)?.fd()?.as_fd();
            let link = match old.next() {
                Some(link) => bpf::link_update(link.as_fd(), program).map(|()| link),
                None => bpf::link_create(program, bpf::Target::Cgroup(directory.as_fd()), hook),
            };
            links.push(link.with_context(|| format!("cannot attach {name} to {}", cgroup.display()))?);
        }
        Ok(Self(links))
    }

    /// Detaches the programs, even if a process that is being forked holds the links as well.
    pub(super) fn detach(self) -> Result<()> {
        self.0
            .iter()
            .try_for_each(|link| bpf::link_detach(link.as_fd()))
            .context("cannot detach the load balancer")
    }
}
