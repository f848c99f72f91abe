//! The real object in the real kernel, in a mount namespace of its own.

use epguard::kernel::conntrack::nfct_at;
use epguard::kernel::datapath::{Datapath, Hooks};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::path::Path;
use std::process::Command;

/// Where [`load`] pins; every thread sees its own.
pub const PIN_DIR: &str = "/sys/fs/bpf/epguard";

/// Loads the object for this thread's test alone: on a bpffs of its own, which programs that it
/// starts share, and which vanishes with it.
pub fn load() -> Datapath {
    load_reading(nfct_at().unwrap())
}

/// The same, with the reference to a packet's conntrack entry there in its `struct sk_buff`.
pub fn load_reading(nfct_at: u32) -> Datapath {
    fresh_bpffs();
    Datapath::load(Path::new(PIN_DIR), Hooks::Auto, nfct_at).unwrap()
}

/// Gives this thread a mount namespace with an empty bpffs.
pub fn fresh_bpffs() {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let nothing = None::<&str>;
    mount(
        nothing,
        "/",
        nothing,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        nothing,
    )
    .unwrap();
    mount(
        nothing,
        "/sys/fs/bpf",
        Some("bpf"),
        MsFlags::empty(),
        nothing,
    )
    .unwrap();
}

pub fn ip(arguments: &str) {
    let mut ip = Command::new("ip");
    ip.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .args(arguments.split_whitespace());
    assert!(ip.status().unwrap().success(), "ip {arguments}");
}
