//! `cargo xtask image`: the agent alone, statically linked, in an OCI archive. No base image, no daemon, no registry.

mod container;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::build;
use crate::packages;
use crate::paths::renamed;
use crate::process::{cargo, command, is_root, read, root, run as run_command};
use crate::setup;

/// What to make.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Make it twice, from nothing, and fail unless both have the same digest
    #[arg(long)]
    verify: bool,
    /// Play the demo with the agent in a container of the image
    #[arg(long)]
    demo: bool,
}

/// The name that the manifests use, in full: containerd keeps an imported image under the name in the archive, and the
/// kubelet asks for the full one.
const NAME: &str = concat!("docker.io/library/epguard:", env!("CARGO_PKG_VERSION"));

/// Octets, unpacked; the compressed image that a node pulls is less than half of that.
const MAX_SIZE: u64 = 20_000_000;

/// Makes the image and prints its path.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if !is_root() {
        bail!("buildah makes the image's file system: run `cargo xtask image` as root");
    }
    packages::install_missing(&[("buildah", "buildah")])?;
    build::object(&setup::ebpf()?)?;
    let target = root().join("target/image");
    let archive = target.join("epguard.tar");
    let digest = make(&target, &archive)?;
    let size = size(&archive)?;
    println!("image: {NAME} {digest}, {size} bytes: {}", archive.display());
    println!("image: kubectl's plugin: {}", target.join("kubectl-epguard").display());
    println!("image: load it with `podman load -i` or `ctr -n k8s.io images import`");
    if args.demo {
        container::demo(&target, &archive)?;
    }
    if args.verify {
        let again = root().join("target/image-again");
        if again.exists() {
            fs::remove_dir_all(&again)?;
        }
        let second = make(&again, &again.join("epguard.tar"))?;
        fs::remove_dir_all(&again)?;
        ensure!(second == digest, "built again it is {second}: not reproducible");
        println!("image: built again, the same digest");
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds into a target directory and packs. Returns the digest of the image's manifest.
fn make(target: &Path, archive: &Path) -> Result<String> {
    let binary = binary(target)?;
    let size = size(&binary)?;
    ensure!(size <= MAX_SIZE, "the image unpacks to {size} bytes, more than {MAX_SIZE}");
    println!("image: it unpacks to {size} bytes");
    let plugin = target.join("kubectl-epguard");
    fs::copy(&binary, &plugin).with_context(|| format!("cannot write {}", plugin.display()))?;
    pack(&binary, target, archive)?;
    let index = read(
        command("tar")
            .arg("--extract")
            .arg("--to-stdout")
            .arg("--file")
            .args([archive.as_os_str(), "index.json".as_ref()]),
    )?;
    let digest = index.split('"').find(|word| word.starts_with("sha256:"));
    Ok(digest.context("the archive names no manifest")?.to_owned())
}

/// Octets of a file.
fn size(file: &Path) -> Result<u64> {
    let read = fs::metadata(file).with_context(|| format!("cannot read {}", file.display()));
    Ok(read?.len())
}

/// Builds the agent, statically linked: with musl where rustup has that target, else with glibc.
fn binary(target: &Path) -> Result<PathBuf> {
    let triple = triple()?;
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    flags.extend(renamed(&[(target, "/target")]));
    let mut build = cargo();
    build
        .args(["build", "--profile", build::SHIPPED, "--locked"])
        .args(["--package", "epguard", "--bin", "epguard"])
        .args(["--target", &triple, "--target-dir"])
        .arg(target)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    run_command(&mut build)?;
    Ok(target.join(triple).join(build::SHIPPED).join("epguard"))
}

fn triple() -> Result<String> {
    let sysroot = read(command("rustc").args(["--print", "sysroot"]))?;
    let arch = env::consts::ARCH;
    let musl = format!("{arch}-unknown-linux-musl");
    let there = Path::new(sysroot.trim()).join("lib/rustlib").join(&musl).exists();
    Ok(if there { musl } else { format!("{arch}-unknown-linux-gnu") })
}

/// Packs the binary alone, with times of 1970, so that the same binary gives the same image.
fn pack(binary: &Path, target: &Path, archive: &Path) -> Result<()> {
    if archive.exists() {
        fs::remove_file(archive).with_context(|| format!("cannot remove {}", archive.display()))?;
    }
    let container = read(buildah(target).args(["from", "scratch"]))?;
    let container = container.trim();
    let run = |arguments: &[&str]| read(buildah(target).args(arguments));
    // The output is the container's or the image's id.
    let binary = binary.display().to_string();
    let to = "/usr/local/bin/epguard";
    run(&["copy", "--quiet", "--chmod", "0755", container, &binary, to])?;
    let entrypoint = format!("[\"{to}\"]");
    run(&["config", "--entrypoint", &entrypoint, container])?;
    run(&["config", "--env", "PATH=/usr/local/bin", container])?;
    let licenses = "org.opencontainers.image.licenses=Apache-2.0 OR MIT";
    run(&["config", "--label", licenses, container])?;
    let mut commit = buildah(target);
    commit.args(["commit", "--quiet", "--rm", "--timestamp", "0"]);
    commit.args(["--identity-label=false", "--disable-compression=false", container]);
    commit.arg(format!("oci-archive:{}:{NAME}", archive.display()));
    read(&mut commit).map(drop)
}

/// buildah with its own storage, so that it leaves nothing on the machine.
fn buildah(target: &Path) -> Command {
    let mut buildah = command("buildah");
    buildah
        .args(["--storage-driver", "vfs", "--root"])
        .arg(target.join("storage"))
        .arg("--runroot")
        .arg(target.join("storage-run"));
    buildah
}
