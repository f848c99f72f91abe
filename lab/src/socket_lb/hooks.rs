//! The programs, loaded and attached.

use std::fs::{self, File};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result};
use aya::maps::MapInfo;
use aya::programs::CgroupSockAddr;
use aya::{Ebpf, EbpfLoader};
use aya_obj::generated::bpf_attach_type;
use epguard::kernel::datapath::bpf;

use crate::neighbour::{BALANCER_MAPS, load, load_with, program};

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

/// Those of Cilium's names.
pub(super) fn ciliums() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = BALANCER_MAPS.into_iter();
    all.filter(|(_, pin)| pin.starts_with("cilium_"))
}

/// Pins new maps of twice the size, and empty, in place of those of Cilium's names: model `OpenOrCreateMap()` of `pkg/bpf`, where a
/// map has another size than the pinned one.
pub(super) fn replace_maps(pins: &Path) -> Result<()> {
    let mut loader = EbpfLoader::new();
    for (map, pin) in ciliums() {
        let path = pins.join(pin);
        let size = 2 * MapInfo::from_pin(&path)?.max_entries();
        loader.map_max_entries(map, size);
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    load_with(loader, pins, &BALANCER_MAPS).map(drop)
}

/// Loads the programs over the maps under the pin folder; the maps are made if they are not pinned yet.
pub(super) fn load_programs(pins: &Path) -> Result<Ebpf> {
    let mut object = load(pins, &BALANCER_MAPS)?;
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
                None => bpf::link_create(program, bpf::Target::Cgroup(directory.as_fd()), hook, 0),
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
