//! `cargo xtask kernel`: the programs' table tests, stories of the lab, IPVS and conntrack on another kernel, in a virtual
//! machine that reads this machine's files and can change none. It is emulated, so it needs no KVM and takes some minutes.

mod guest;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::build;
use crate::ladder::{Counted, Ladder};
use crate::packages;
use crate::process::{cargo, command, is_root, read, root};
use crate::setup;
use guest::Guest;

/// On which kernel, and what.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A Debian package of a kernel; again for its modules, where they are packages of their own [default: this release's
    /// linux-image-amd64]
    #[arg(long, value_name = "FILE")]
    deb: Vec<PathBuf>,
    /// Stories [default: one for each verdict, hook and way]
    #[arg(value_name = "FILE")]
    scenarios: Vec<PathBuf>,
}

/// The machine is emulated: beside other work the table tests alone took 23 minutes.
const LONGEST: Duration = Duration::from_mins(90);

/// One for each verdict, hook and way that a kernel may treat differently.
const STORIES: [&str; 12] = [
    "finished-job-still-listed",
    "reused-across-namespaces",
    "reused-through-a-tunnel",
    "udp-blackhole",
    "headless-direct",
    "headless-direct-bridge",
    "headless-direct-xdp",
    "redirect",
    "agent-killed",
    "port-reuse-same-client",
    "neighbour-scrambles",
    "later-fragments",
];

/// Programs that make the virtual machine, and the Debian package of each.
const PROGRAMS: [(&str, &str); 6] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("depmod", "kmod"),
    ("xz", "xz-utils"),
    ("ipvsadm", "ipvsadm"),
];

/// Boots the kernel, runs, and counts.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if !is_root() {
        bail!("`cargo xtask kernel` lets the virtual machine read all files: run it as root");
    }
    ensure!(std::env::consts::ARCH == "x86_64", "the virtual machine is one of x86_64: this machine is none");
    setup::programs()?;
    packages::install_missing(&PROGRAMS)?;
    build::object(&setup::ebpf()?)?;
    build::host()?;
    let guest = Guest::new(&args.deb)?;
    let work = [late()?, intents()?, tables()?, stories(&args.scenarios)?].concat();
    let mut ladder = Ladder::default();
    let machine = guest.machine(&work)?;
    let title = format!("Linux {}", guest.release);
    ladder.run_within(LONGEST, &title, Counted::ByOutput, machine);
    ladder.check("it came to its end", || guest.has_ended());
    Ok(ladder.finish())
}

/// The command for the test of a module that is loaded late: the first, as the others load it.
fn late() -> Result<String> {
    let executable = executable("epguard-lab", "agent")?;
    Ok(format!("cd lab && {executable} --ignored late_module::; cd ..\n"))
}

/// The command for the tests of all that conntrack shows. Debian has IPVS as a module, many other kernels lack it.
fn intents() -> Result<String> {
    let executable = executable("epguard-lab", "network")?;
    Ok(format!("modprobe ip_vs\ncd lab && {executable} --ignored --test-threads 2 intents::; cd ..\n"))
}

/// The command that runs packets through the programs, and calls through a socket load balancer. Before Linux 6.4 the memory of maps is only estimated.
fn tables() -> Result<String> {
    let executable = executable("epguard", "kernel")?;
    Ok(format!(
        "cd agent && FRAMES=20000 {executable} --ignored --test-threads 2 --skip memory:: programs:: lifecycle::socket_lb; cd ..\n"
    ))
}

/// Builds a package's test, and returns its path.
fn executable(package: &str, test: &str) -> Result<String> {
    let mut build = cargo();
    build.args(["test", "--no-run", "--package", package, "--test", test]);
    let printed = read(build.args(["--message-format", "json"]))?;
    let paths = printed.split("\"executable\":\"").skip(1);
    let mut paths = paths.filter_map(|rest| rest.split('"').next());
    let executable = paths.find(|path| path.contains(&format!("/{test}-")));
    executable.map(Into::into).with_context(|| format!("cargo names no executable of the test `{test}`"))
}

fn stories(given: &[PathBuf]) -> Result<String> {
    let own = STORIES.map(|name| format!("lab/scenarios/{name}.yaml").into());
    let lab = build::binaries("debug").join("epguard-lab");
    // The emulated kernel takes a minute to verify the programs of as many agents as start at once.
    let mut command = format!("{} scenario --jobs 2", lab.display());
    for file in if given.is_empty() { &own } else { given } {
        let whole = file.canonicalize();
        let whole = whole.with_context(|| format!("there is no {}", file.display()))?;
        command.extend([" ", &whole.display().to_string()]);
    }
    Ok(command + "\n")
}

/// The folder of this verb's files.
fn folder() -> PathBuf {
    root().join("target/kernel")
}

fn qemu(kernel: &Path, initrd: &Path, shared: &Path) -> Command {
    let mut qemu = command("qemu-system-x86_64");
    qemu.args(["-nographic", "-no-reboot", "-nic", "none", "-m", "6144", "-smp", "2"]);
    qemu.args(["-cpu", "qemu64", "-append", "console=ttyS0 quiet panic=-1"]);
    qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(initrd);
    let shared = shared.display();
    let host = "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap";
    qemu.args(["-virtfs", host, "-virtfs"]);
    qemu.arg(format!("local,path={shared},mount_tag=shared,security_model=none"));
    qemu
}
