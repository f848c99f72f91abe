//! The kernel side: load the object, pin its maps, hook interfaces and the node's own sockets.

use crate::maps;
use anyhow::{Context as _, Result, bail, ensure};
use aya::programs::tc::TcAttachOptions;
use aya::programs::{CgroupAttachMode, CgroupSockAddr, LinkOrder, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader};
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// The object that `cargo xtask build` made; empty if this binary was built without it.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/epguard-ebpf"));

/// Programs on TC ingress and egress of every hooked interface.
const HOOKS: [(&str, TcAttachType); 2] = [
    ("epguard_from", TcAttachType::Ingress),
    ("epguard_to", TcAttachType::Egress),
];

/// Programs on the root cgroup.
const SOCKET_HOOKS: [&str; 4] = [
    "epguard_connect4",
    "epguard_connect6",
    "epguard_sendmsg4",
    "epguard_sendmsg6",
];

/// The loaded programs and where they are attached. Dropping it detaches everything.
pub struct Datapath {
    /// For the maps and the logger.
    pub ebpf: Ebpf,
    hooked: HashMap<u32, Vec<(&'static str, aya::programs::tc::SchedClassifierLinkId)>>,
}

impl Datapath {
    /// Loads the object and pins its maps under `<pin-dir>/v1`, in place of what an earlier process left there.
    pub fn load(pin_dir: &Path) -> Result<Self> {
        ensure!(
            !OBJECT.is_empty(),
            "this epguard was built without its eBPF object: run `cargo xtask build`"
        );
        check_kernel()?;
        let directory = maps::directory(pin_dir);
        prepare(&directory)?;
        let mut loader = EbpfLoader::new();
        for name in maps::NAMES {
            loader.map_pin_path(name, directory.join(name));
        }
        let ebpf = loader
            .load(OBJECT)
            .map_err(|error| explain(error, "cannot load the eBPF object"))?;
        let mut datapath = Self {
            ebpf,
            hooked: HashMap::new(),
        };
        for (name, _) in HOOKS {
            datapath
                .classifier(name)?
                .load()
                .map_err(|error| explain(error, name))?;
        }
        Ok(datapath)
    }

    /// Follows the sockets of the network namespace that this process is in.
    pub fn hook_sockets(&mut self, cgroup: &Path) -> Result<()> {
        let root = File::open(cgroup)
            .with_context(|| format!("cannot open the cgroup2 mount {}", cgroup.display()))?;
        for name in SOCKET_HOOKS {
            let program: &mut CgroupSockAddr = self
                .ebpf
                .program_mut(name)
                .with_context(|| format!("no program {name}"))?
                .try_into()?;
            program.load().map_err(|error| explain(error, name))?;
            program.attach(&root, CgroupAttachMode::Single).with_context(|| {
                format!(
                    "cannot attach {name} to {}: is it a cgroup2 mount?",
                    cgroup.display()
                )
            })?;
        }
        Ok(())
    }

    /// Hooks an interface, before all other TCX programs in both directions.
    pub fn hook(&mut self, ifindex: u32, interface: &str) -> Result<()> {
        if self.hooked.contains_key(&ifindex) {
            return Ok(());
        }
        let mut links = Vec::with_capacity(HOOKS.len());
        for (name, direction) in HOOKS {
            let order = TcAttachOptions::TcxOrder(LinkOrder::first());
            let link = self
                .classifier(name)?
                .attach_with_options(interface, direction, order)
                .with_context(|| format!("cannot attach {name} to interface {interface}"))?;
            links.push((name, link));
        }
        self.hooked.insert(ifindex, links);
        Ok(())
    }

    /// Forgets an interface that is gone or no longer selected; the kernel has detached from one that is gone.
    pub fn unhook(&mut self, ifindex: u32) -> Result<()> {
        for (name, link) in self.hooked.remove(&ifindex).into_iter().flatten() {
            self.classifier(name)?
                .detach(link)
                .with_context(|| format!("cannot detach {name}"))?;
        }
        Ok(())
    }

    fn classifier(&mut self, name: &str) -> Result<&mut SchedClassifier> {
        let program = self
            .ebpf
            .program_mut(name)
            .with_context(|| format!("the eBPF object has no program {name}"))?;
        Ok(program.try_into()?)
    }
}

/// `SO_NETNS_COOKIE` of the network namespace that this process is in. Linux 5.14.
pub fn netns_cookie() -> Result<u64> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")
        .or_else(|_| std::net::UdpSocket::bind("0.0.0.0:0"))
        .context("cannot make a socket")?;
    let mut cookie = 0u64;
    let mut length = libc::socklen_t::try_from(size_of::<u64>())?;
    // SAFETY: the kernel writes at most `length` octets into `cookie`.
    let failed = unsafe {
        let value = std::ptr::from_mut(&mut cookie).cast();
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            value,
            &raw mut length,
        )
    };
    ensure!(
        failed == 0,
        "cannot tell the network namespace's cookie: {}",
        std::io::Error::last_os_error()
    );
    Ok(cookie)
}

fn check_kernel() -> Result<()> {
    let btf = Path::new("/sys/kernel/btf/vmlinux");
    ensure!(
        btf.exists(),
        "the kernel has no BTF ({}): it needs CONFIG_DEBUG_INFO_BTF=y",
        btf.display()
    );
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        bail!(
            "not enough privileges: run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON as uid 0 in the pod"
        );
    }
    Ok(())
}

/// Magic number of bpffs (linux/magic.h).
const BPF_FS_MAGIC: libc::__fsword_t = 0xcafe_4a11;

/// Makes the pin directory and clears it: what was pinned there was proven by a process that is gone.
fn prepare(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| {
        format!(
            "cannot make {}: mount bpffs there (mount -t bpf bpf /sys/fs/bpf)",
            directory.display()
        )
    })?;
    let path = std::ffi::CString::new(directory.as_os_str().as_encoded_bytes())?;
    // SAFETY: an all-zero statfs is a valid one, and the kernel overwrites it.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a NUL-terminated path and one statfs to write to.
    let failed = unsafe { libc::statfs(path.as_ptr(), &raw mut stat) };
    ensure!(
        failed == 0 && stat.f_type == BPF_FS_MAGIC,
        "{} is not on a bpf file system: mount one (mount -t bpf bpf /sys/fs/bpf) or give another --pin-dir",
        directory.display()
    );
    for name in maps::NAMES {
        match fs::remove_file(directory.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error)
                    .with_context(|| format!("cannot remove the old pin {}/{name}", directory.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The last of the kernel's own words on one line; the verifier's whole log goes to the debug log.
fn explain(error: impl std::error::Error + Send + Sync + 'static, what: &str) -> anyhow::Error {
    let error = format!("{:#}", anyhow::Error::new(error));
    tracing::debug!(what, error, "refused");
    let said: Vec<&str> = error.lines().collect();
    let last = match said.as_slice() {
        [] => String::new(),
        [line] => (*line).to_owned(),
        [first, .., _, _, verdict, _, _] | [first, .., verdict] => format!("{first} ... {verdict}"),
    };
    anyhow::anyhow!("{what}: {last} (needs Linux 6.6 for TCX, CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)")
}
