//! A stand-in for Cilium where it replaces kube-proxy: the programs of
//! `lab/neighbour/src/socket_lb` at a root cgroup, which translate cluster IPs at `connect` and
//! `sendmsg`. Only calls change its Services, so that it can be late. Its maps are also those of
//! the programs that translate packets
//! ([`NeighbourKind::PacketLb`](crate::neighbour::NeighbourKind::PacketLb)).
//!
//! Its root is a cgroup of the lab's own ([`crate::net::SocketRoot`]), and it acts only on sockets
//! of the network namespaces that it is given: no process of this machine meets it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use aya::Ebpf;
use aya::maps::{MapData, MapInfo, MapType};
use aya::programs::CgroupSockAddr;
use aya_obj::generated::{BPF_F_NO_COMMON_LRU, BPF_F_NO_PREALLOC, bpf_attach_type};
use epguard::kernel::datapath::bpf;
use tables::Tables;

use crate::neighbour::{BALANCER_MAPS, load, load_program, maps, program};
use crate::net::{NetNs, netns_cookie};
use crate::proxy::ServiceRule;

mod tables;

/// The load balancer of one node. Dropping it detaches its programs, and so does the kernel if the
/// process is killed.
#[derive(Debug)]
pub struct SocketLb {
    cgroup: PathBuf,
    pins: PathBuf,
    hooks: Option<Hooks>,
    tables: Tables,
    rules: Vec<ServiceRule>,
    /// Cookies by name.
    namespaces: BTreeMap<String, u64>,
}

impl SocketLb {
    /// One for the sockets below a cgroup, not started yet; `pins` is a folder in a bpffs for its
    /// maps.
    pub fn new(cgroup: &Path, pins: &Path) -> Self {
        Self {
            cgroup: cgroup.to_owned(),
            pins: pins.to_owned(),
            hooks: None,
            tables: Tables::default(),
            rules: Vec::new(),
            namespaces: BTreeMap::new(),
        }
    }

    /// Loads and attaches the programs, behind those that are at the root. If it is attached
    /// already, the new programs take the places of the old ones: model `attachCgroup()` of
    /// `pkg/socketlb/cgroup.go`, Cilium commit 265414935e08. Needs root.
    pub fn start(&mut self) -> Result<()> {
        let mut object = load_programs(&self.pins)?;
        let old = self.hooks.take();
        // The maps have their contents before a program reads them.
        self.write_services()?;
        self.write_namespaces()?;
        self.hooks = Some(Hooks::attach(&mut object, &self.cgroup, old)?);
        Ok(())
    }

    /// Detaches the programs. Its maps stay, as Cilium's do: open sockets are shown their cluster
    /// IPs again after a start.
    pub fn stop(&mut self) -> Result<()> {
        self.hooks.take().map_or(Ok(()), Hooks::detach)
    }

    /// Whether its programs are attached.
    pub fn is_attached(&self) -> bool {
        self.hooks.is_some()
    }

    /// Replaces all Services by these. Of their frontends only cluster IPs are served, over TCP and
    /// UDP. Connected sockets keep their backends.
    pub fn program(&mut self, rules: &[ServiceRule]) -> Result<()> {
        self.rules = rules.to_vec();
        self.write_services()
    }

    /// Writes the Services, unless nothing has made the maps yet.
    pub(crate) fn write_services(&mut self) -> Result<()> {
        if self.pins.join("SOCKET_SERVICES").exists() {
            self.tables.write_services(&self.pins, &self.rules)?;
        }
        Ok(())
    }

    /// Does what Cilium's agent does when it starts with other sizes of maps, or other flags: pins
    /// new ones in place of the old ones, and fills those of reversals. Programs use the old ones
    /// until they are started again.
    pub fn replace_maps(&mut self, with_other_flags: bool) -> Result<()> {
        replace_maps(&self.pins, with_other_flags)?;
        self.write_services()
    }

    /// Names and ids of the pinned maps of Cilium's names. None before the first start.
    pub fn pinned(&self) -> Result<Vec<(&'static str, u32)>> {
        if !self.pins.exists() {
            return Ok(Vec::new());
        }
        let mut pinned = Vec::new();
        for (_, pin) in ciliums() {
            let info = MapInfo::from_pin(self.pins.join(pin))?;
            pinned.push((pin, info.id()));
        }
        Ok(pinned)
    }

    /// Translates the sockets of these network namespaces, and of no others: those of a node and
    /// its pods.
    pub fn serve(&mut self, namespaces: &[&NetNs]) -> Result<()> {
        let mut cookies = BTreeMap::new();
        for namespace in namespaces {
            let name = namespace.name();
            let cookie = match self.namespaces.get(name) {
                Some(cookie) => *cookie,
                None => namespace.run(netns_cookie)??,
            };
            cookies.insert(name.to_owned(), cookie);
        }
        self.namespaces = cookies;
        if self.is_attached() {
            self.write_namespaces()
        } else {
            Ok(())
        }
    }

    fn write_namespaces(&self) -> Result<()> {
        let wanted = self.namespaces.values().map(|cookie| (*cookie, 1_u32));
        maps::replace(&self.pins, "NAMESPACES", &wanted.collect())
    }
}

impl Drop for SocketLb {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

const PROGRAMS: [(&str, bpf_attach_type); 8] = [
    ("sock4_connect", bpf_attach_type::BPF_CGROUP_INET4_CONNECT),
    ("sock6_connect", bpf_attach_type::BPF_CGROUP_INET6_CONNECT),
    ("sock4_sendmsg", bpf_attach_type::BPF_CGROUP_UDP4_SENDMSG),
    ("sock6_sendmsg", bpf_attach_type::BPF_CGROUP_UDP6_SENDMSG),
    ("sock4_recvmsg", bpf_attach_type::BPF_CGROUP_UDP4_RECVMSG),
    ("sock6_recvmsg", bpf_attach_type::BPF_CGROUP_UDP6_RECVMSG),
    (
        "sock4_getpeername",
        bpf_attach_type::BPF_CGROUP_INET4_GETPEERNAME,
    ),
    (
        "sock6_getpeername",
        bpf_attach_type::BPF_CGROUP_INET6_GETPEERNAME,
    ),
];

/// Those of Cilium's names.
pub(super) fn ciliums() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = BALANCER_MAPS.into_iter();
    all.filter(|(_, pin)| pin.starts_with("cilium_"))
}

/// Pins new maps, twice as large and empty, in place of those of Cilium's names: model
/// `OpenOrCreateMap()` of `pkg/bpf`, where a map has another size or other flags than the pinned
/// one. The other flag is that of `bpf.distributedLRU`, or of `bpf.preallocateMaps`.
fn replace_maps(pins: &Path, with_other_flags: bool) -> Result<()> {
    for (_, pin) in ciliums() {
        let path = pins.join(pin);
        let info = MapInfo::from_pin(&path)?;
        let kind = info.map_type()?;
        let flags = match kind {
            _ if !with_other_flags => info.map_flags(),
            MapType::LruHash => info.map_flags() ^ BPF_F_NO_COMMON_LRU,
            _ => info.map_flags() ^ BPF_F_NO_PREALLOC,
        };
        let key = info.key_size();
        let value = info.value_size();
        let size = 2 * info.max_entries();
        let map = aya_obj::Map::new_from_params(kind as u32, key, value, size, flags);
        let map = MapData::create(map, pin, None).with_context(|| format!("cannot make {pin}"))?;
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        map.pin(&path)
            .with_context(|| format!("cannot pin {pin}"))?;
    }
    Ok(())
}

/// Loads the programs over the maps under the pin folder; the maps are made if they are not pinned
/// yet.
pub(super) fn load_programs(pins: &Path) -> Result<Ebpf> {
    let mut object = load(pins, &BALANCER_MAPS)?;
    for (name, _) in PROGRAMS {
        let program = program::<CgroupSockAddr>(&mut object, name)?;
        load_program(|| program.load())
            .with_context(|| format!("cannot load the load balancer's program {name}"))?;
    }
    Ok(object)
}

/// The attached programs, one link each. No link is pinned: the kernel detaches them when this
/// process ends.
#[derive(Debug)]
pub(super) struct Hooks(Vec<OwnedFd>);

impl Hooks {
    /// Attaches the programs to a cgroup behind those that are there, or puts them into the links
    /// of `old`, in which there is a program at each moment.
    pub(super) fn attach(object: &mut Ebpf, cgroup: &Path, old: Option<Self>) -> Result<Self> {
        let directory =
            File::open(cgroup).with_context(|| format!("cannot open {}", cgroup.display()))?;
        let mut old = old.into_iter().flat_map(|old| old.0);
        let mut links = Vec::new();
        for (name, hook) in PROGRAMS {
            let program = program::<CgroupSockAddr>(object, name)?.fd()?.as_fd();
            let link = match old.next() {
                Some(link) => bpf::link_update(link.as_fd(), program).map(|()| link),
                None => bpf::link_create(program, bpf::Target::Cgroup(directory.as_fd()), hook, 0),
            };
            links.push(
                link.with_context(|| format!("cannot attach {name} to {}", cgroup.display()))?,
            );
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
