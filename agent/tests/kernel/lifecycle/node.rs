//! A node of two interfaces' ends: `pod` here, its peer in another network namespace.

use super::*;
use aya::programs::SchedClassifier;
use aya::programs::tc::{NlOptions, TcAttachOptions, TcHandle};
use epguard::kernel::cilium::prepare;
use epguard::kernel::conntrack::nfct_at;
use epguard::kernel::datapath::Pins;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tempfile::{TempDir, tempdir};

/// The calling thread's network namespace from now on, and a bpffs.
pub struct Node {
    /// The bpffs.
    pub dir: PathBuf,
    /// In the peer's network namespace, at [`PEER`].
    pub peer: UdpSocket,
    peer_netns: File,
    scratch: TempDir,
}

/// Addresses of the two ends.
pub const OWN: &str = "10.9.0.1";
pub const PEER: &str = "10.9.0.2";

impl Node {
    pub fn new() -> Self {
        let scratch = tempdir().unwrap();
        let dir = scratch.path().join("bpf");
        fs::create_dir(&dir).unwrap();
        run("mount", &["-t", "bpf", "bpf", dir.to_str().unwrap()]);
        let alone =
            || unshare(CloneFlags::CLONE_NEWNET).expect("making a network namespace needs root");
        let peer_netns = std::thread::spawn(move || {
            alone();
            File::open("/proc/thread-self/ns/net").unwrap()
        });
        let peer_netns = peer_netns.join().unwrap();
        alone();
        ip("link set lo up");
        ip(&format!(
            "link add pod type veth peer name eth0 netns {}",
            path_of(&peer_netns)
        ));
        ip(&format!("address add {OWN}/24 dev pod"));
        ip("link set pod up");
        let peer = within(&peer_netns, || {
            ip(&format!("address add {PEER}/24 dev eth0"));
            ip("link set eth0 up");
            UdpSocket::bind((PEER, 9)).unwrap()
        });
        Self {
            dir,
            peer,
            peer_netns,
            scratch,
        }
    }

    /// In the peer's network namespace, on a thread of its own.
    pub fn in_peer<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        within(&self.peer_netns, act)
    }

    /// The path of the peer's network namespace.
    pub fn peer_netns(&self) -> String {
        path_of(&self.peer_netns)
    }

    /// As an agent that starts here.
    pub fn load(&self, hooks: Hooks) -> Datapath {
        Pins::make(&self.pins()).unwrap();
        prepare(&self.pins()).unwrap();
        Datapath::load(&self.pins(), hooks, nfct_at().unwrap())
            .expect("run `cargo xtask build` first")
    }

    /// The same, with hooks at `pod`.
    pub fn hooked(&self, hooks: Hooks) -> Datapath {
        let mut datapath = self.load(hooks);
        datapath.hook(ifindex("pod"), "pod").unwrap();
        datapath
    }

    /// `--pin-dir`.
    pub fn pins(&self) -> PathBuf {
        self.dir.join("epguard")
    }

    /// `--run-dir`.
    pub fn run_dir(&self) -> PathBuf {
        self.scratch.path().join("run")
    }

    /// The pin of a hook's link.
    pub fn pin(&self, hook: Hook) -> PathBuf {
        self.pins()
            .join(format!("v3/links/{}-{}", ifindex("pod"), hook.as_str()))
    }

    /// The pin of XDP's link.
    pub fn xdp_pin(&self) -> PathBuf {
        self.pins().join(format!("v3/links/{}-xdp", ifindex("pod")))
    }
}

fn within<T: Send>(netns: &File, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                setns(netns, CloneFlags::CLONE_NEWNET).unwrap();
                act()
            })
            .join()
    })
    .unwrap()
}

fn path_of(netns: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), netns.as_raw_fd())
}

/// `ip link show` of `pod`.
pub fn shown() -> String {
    run("ip", &["link", "show", "dev", "pod"])
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
    }
}

/// Link-layer address of an interface of the calling thread's network namespace.
pub fn mac(name: &str) -> String {
    json("ip", &["-j", "link", "show", "dev", name])[0]["address"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Number of an interface of the calling thread's network namespace.
pub fn ifindex(name: &str) -> u32 {
    if_nametoindex(name).unwrap_or_else(|error| panic!("no interface {name}: {error}"))
}

/// Ids of a pinned link and of the program in it.
pub fn link(pin: &Path) -> (u64, u64) {
    let link = json(
        "bpftool",
        &["-j", "link", "show", "pinned", pin.to_str().unwrap()],
    );
    (
        link["id"].as_u64().unwrap(),
        link["prog_id"].as_u64().unwrap(),
    )
}

/// `tc filter show`, `tc qdisc show` and the like.
pub fn tc(arguments: &str) -> String {
    run("tc", &arguments.split(' ').collect::<Vec<_>>())
}

/// A program that is not one of the hooks', as other people's.
pub fn foreign(datapath: &mut Datapath) -> &mut SchedClassifier {
    let program = datapath.ebpf.program_mut("epguard_selftest").unwrap();
    let program: &mut SchedClassifier = program.try_into().unwrap();
    program.load().unwrap();
    program
}

pub fn filter(priority: u16) -> TcAttachOptions {
    TcAttachOptions::Netlink(NlOptions {
        priority,
        handle: TcHandle::new(0, 1),
        classid: None,
    })
}

/// Runs a program that must succeed, and returns its output.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The same of one whose output is JSON.
pub fn json(program: &str, arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&run(program, arguments)).unwrap()
}

/// Runs a program, and returns its output and exit status.
pub fn output(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .args(arguments)
        .output()
        .unwrap()
}

/// Waits until it is done, a minute at most.
pub fn until(failing: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !done() {
        assert!(Instant::now() < deadline, "{failing}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
