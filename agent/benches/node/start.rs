//! Milliseconds to load, to attach, and to take over.

use crate::kernel;
use crate::raw::{self, Kind};
use aya_obj::generated::bpf_attach_type::{BPF_TCX_EGRESS, BPF_TCX_INGRESS};
use epguard::kernel::conntrack::nfct_at;
use epguard::kernel::datapath::bpf::{self, Target};
use epguard::kernel::datapath::{Datapath, Hooks};
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Milliseconds of each step.
pub struct Round {
    pub empty: f64,
    pub load: f64,
    pub attach: f64,
    pub load_again: f64,
    pub take_over: f64,
}

/// Each step on a new node.
pub fn round(interfaces: usize) -> Round {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    kernel::fresh_bpffs();
    let interfaces = make(interfaces);
    let empty = timed(|| attach_empty(&interfaces)).1;
    let (first, load) = timed(load_all);
    let (first, attach) = timed(|| hook(first, &interfaces));
    drop(first);
    let (second, load_again) = timed(load_all);
    let (_second, take_over) = timed(|| hook(second, &interfaces));
    Round { empty, load, attach, load_again, take_over }
}

fn load_all() -> Datapath {
    Datapath::load(Path::new(kernel::PIN_DIR), Hooks::Auto, nfct_at().unwrap()).unwrap()
}

fn hook(mut datapath: Datapath, interfaces: &[(u32, String)]) -> Datapath {
    for (number, name) in interfaces {
        datapath.hook(*number, name).unwrap();
    }
    datapath
}

/// Attaches an empty program as epguard does its own. It stays, and epguard's programs go before it.
fn attach_empty(interfaces: &[(u32, String)]) {
    /// `r0 = TC_ACT_UNSPEC`, `exit`.
    const EMPTY: [u64; 2] = [0xffff_ffff_0000_00b7, 0x95];
    let program = raw::load(Kind::Tc, &EMPTY).unwrap();
    for (number, name) in interfaces {
        for (hook, what) in [(BPF_TCX_INGRESS, "ingress"), (BPF_TCX_EGRESS, "egress")] {
            let link = bpf::link_create(program.as_fd(), Target::Interface(*number), hook).unwrap();
            bpf::pin(link.as_fd(), &Path::new("/sys/fs/bpf").join(format!("{name}-{what}"))).unwrap();
        }
    }
}

/// Makes interfaces, and returns their numbers and names.
fn make(count: usize) -> Vec<(u32, String)> {
    let names: Vec<String> = (0..count).map(|number| format!("veth{number}")).collect();
    let mut ip = Command::new("ip")
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut batch = ip.stdin.take().unwrap();
    for pair in names.chunks(2) {
        writeln!(batch, "link add {} type veth peer name {}", pair[0], pair[1]).unwrap();
    }
    drop(batch);
    assert!(ip.wait().unwrap().success());
    names.into_iter().map(|name| (if_nametoindex(&*name).unwrap(), name)).collect()
}

fn timed<T>(step: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let result = step();
    (result, begun.elapsed().as_secs_f64() * 1e3)
}
