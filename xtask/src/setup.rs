//! `cargo xtask setup`, and the parts of it that other verbs run.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::linker;
use crate::packages;
use crate::process::which;
use crate::toolchain::Toolchain;

/// Programs that the lab and the tests start, with the Debian package of each.
const PROGRAMS: [(&str, &str); 9] = [
    ("bpftool", "bpftool"),
    ("nft", "nftables"),
    ("ip", "iproute2"),
    ("kubectl", "kubernetes-client"),
    ("ethtool", "ethtool"),
    ("tcpdump", "tcpdump"),
    ("iptables-nft", "iptables"),
    ("jq", "jq"),
    ("sysctl", "procps"),
];

/// Programs that the benchmarks compare epguard with.
const BENCH_PROGRAMS: [(&str, &str); 2] = [("xdp-filter", "xdp-tools"), ("ipset", "ipset")];

/// The tools that compile and link the eBPF object.
pub(crate) struct Ebpf {
    pub(crate) toolchain: Toolchain,
    pub(crate) linker: PathBuf,
}

/// Installs all tools and prints their versions.
pub(crate) fn run() -> Result<ExitCode> {
    ebpf()?;
    programs()?;
    test_programs()?;
    for (program, _) in PROGRAMS {
        println!("setup: {program}: {}", which(program).unwrap_or_default().display());
    }
    println!("setup: complete");
    Ok(ExitCode::SUCCESS)
}

/// Ensures the eBPF toolchain and its linker, and prints which ones are in use.
pub(crate) fn ebpf() -> Result<Ebpf> {
    let toolchain = Toolchain::ensure()?;
    let linker = linker::ensure(&toolchain)?;
    println!("eBPF toolchain: {toolchain}, linker {}", linker.display());
    Ok(Ebpf { toolchain, linker })
}

/// Ensures the programs that the lab and the root tests start.
pub(crate) fn programs() -> Result<()> {
    packages::install_missing(&PROGRAMS)
}

/// Ensures the programs of the benchmarks.
pub(crate) fn bench_programs() -> Result<()> {
    packages::install_missing(&BENCH_PROGRAMS)
}

/// Ensures the further programs that tests start.
pub(crate) fn test_programs() -> Result<()> {
    if which("promtool").is_some() {
        return Ok(());
    }
    // The installed package would start a Prometheus server.
    packages::extract("prometheus", "usr/bin/promtool")
}
