//! `cargo xtask kernel`: the programs' table tests, stories of the lab, IPVS and conntrack on
//! another kernel, in a virtual machine that reads this machine's files and can change none. It is
//! emulated, so it needs no KVM and takes some minutes.

mod guest;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::arch::{Arch, Compiler};
use crate::build;
use crate::ladder::{Counted, Ladder};
use crate::packages;
use crate::process::{cargo, command, is_root, read, root, run as run_command};
use crate::setup;
use guest::Guest;

/// On which kernel, and what.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The machine's architecture; a foreign one has Debian's kernel and programs [default: this
    /// machine's]
    #[arg(long, value_enum)]
    arch: Option<Arch>,
    /// A Debian package of a kernel; again for its modules, where they are packages of their own
    /// [default: this release's kernel]
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
const PROGRAMS: [(&str, &str); 5] = [
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
    let arch = args.arch.map_or_else(Arch::host, Ok)?;
    ensure!(
        arch == Arch::host()? || args.deb.is_empty(),
        "--deb is for this machine's architecture"
    );
    setup::programs()?;
    packages::install_missing(&PROGRAMS)?;
    packages::install_missing(&[match arch {
        Arch::Amd64 => ("qemu-system-x86_64", "qemu-system-x86"),
        Arch::Arm64 => ("qemu-system-aarch64", "qemu-system-arm"),
    }])?;
    build::object(&setup::ebpf()?)?;
    let builder = Builder::new(arch)?;
    let guest = Guest::new(arch, &args.deb)?;
    let mut work = String::new();
    // What a kernel's version may change is tested on this architecture. The first is a module that
    // is loaded late: the others load it.
    if builder.foreign.is_none() {
        work += &builder.tests("lab", "agent", "late_module::")?;
        // All that conntrack shows. Debian has IPVS as a module, many other kernels lack it.
        work += "modprobe ip_vs\n";
        work += &builder.tests("lab", "network", "--test-threads 2 intents::")?;
    }
    // Packets through the programs, and calls through a socket load balancer. Before Linux 6.4 the
    // memory of maps is only estimated.
    let programs = "--test-threads 2 --skip memory:: programs:: lifecycle::socket_lb";
    work += &builder.tests("agent", "kernel", programs)?;
    work += &stories(&builder, &args.scenarios)?;
    let mut ladder = Ladder::default();
    let machine = guest.machine(&work)?;
    let title = format!("Linux {}", guest.release);
    ladder.run_within(LONGEST, &title, Counted::ByOutput, machine);
    ladder.check("it came to its end", || guest.has_ended());
    Ok(ladder.finish())
}

/// Builds what the machine runs. A foreign machine has other libraries: all is linked statically.
struct Builder {
    foreign: Option<Compiler>,
}

impl Builder {
    fn new(arch: Arch) -> Result<Self> {
        let foreign = (arch != Arch::host()?)
            .then(|| Compiler::ensure(arch))
            .transpose()?;
        Ok(Self { foreign })
    }

    fn cargo(&self, verb: &str) -> Command {
        if let Some(compiler) = &self.foreign {
            return compiler.cargo(verb, Vec::new());
        }
        let mut native = cargo();
        native.arg(verb);
        native
    }

    /// The command that runs root tests of the package in this folder. The differential test takes
    /// fewer frames than elsewhere.
    fn tests(&self, folder: &str, test: &str, which: &str) -> Result<String> {
        let mut build = self.cargo("test");
        let manifest = root().join(folder).join("Cargo.toml");
        build
            .args(["--no-run", "--test", test, "--manifest-path"])
            .arg(manifest);
        let printed = read(build.args(["--message-format", "json"]))?;
        let mut paths = printed
            .split("\"executable\":\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next());
        let executable = paths
            .find(|path| path.contains(&format!("/{test}-")))
            .with_context(|| format!("cargo names no executable of the test `{test}`"))?;
        Ok(format!(
            "cd {folder} && FRAMES=20000 {executable} --ignored {which}; cd ..\n"
        ))
    }

    /// The lab and, beside it, the agent.
    fn lab(&self) -> Result<PathBuf> {
        run_command(self.cargo("build").args([
            "--package",
            "epguard",
            "--package",
            "epguard-lab",
        ]))?;
        let folder = self.foreign.as_ref().map_or("debug".into(), |foreign| {
            format!("{}/debug", foreign.triple)
        });
        Ok(build::binaries(&folder).join("epguard-lab"))
    }
}

fn stories(builder: &Builder, given: &[PathBuf]) -> Result<String> {
    let own = STORIES.map(|name| format!("lab/scenarios/{name}.yaml").into());
    let own = if builder.foreign.is_none() {
        &own[..]
    } else {
        &own[..2]
    };
    let lab = builder.lab()?;
    // The emulated kernel takes a minute to verify the programs of as many agents as start at once.
    let mut command = format!("{} scenario --jobs 2", lab.display());
    for file in if given.is_empty() { own } else { given } {
        let whole = file
            .canonicalize()
            .with_context(|| format!("there is no {}", file.display()))?;
        command.extend([" ", &whole.display().to_string()]);
    }
    Ok(command + "\n")
}

/// The folder of this verb's files.
fn folder() -> PathBuf {
    root().join("target/kernel")
}

/// The virtual machine. `host` is the root of its files.
fn qemu(arch: Arch, kernel: &Path, initrd: &Path, host: &Path) -> Command {
    let (processor, console): (&[&str], _) = match arch {
        Arch::Amd64 => (&["-cpu", "qemu64"], "ttyS0"),
        Arch::Arm64 => (&["-machine", "virt", "-cpu", "cortex-a72"], "ttyAMA0"),
    };
    let mut qemu = command(format!("qemu-system-{}", arch.machine()));
    qemu.args([
        "-nographic",
        "-no-reboot",
        "-nic",
        "none",
        "-m",
        "6144",
        "-smp",
        "2",
    ])
    .args(processor);
    qemu.args(["-append", &format!("console={console} quiet panic=-1")]);
    qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(initrd);
    let mut share = |folder: &Path, tag, end| {
        let share = format!(
            "local,path={},mount_tag={tag},security_model=none{end}",
            folder.display()
        );
        qemu.args(["-virtfs", &share]);
    };
    share(host, "host", ",readonly=on,multidevs=remap");
    share(root(), "workspace", ",readonly=on,multidevs=remap");
    share(&folder().join("shared"), "shared", "");
    qemu
}
