//! `cargo xtask image`: the agent alone, statically linked, for each architecture in one OCI
//! archive. No base image, no daemon, no registry.

mod container;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use crate::arch::{Arch, Compiler};
use crate::archive;
use crate::build;
use crate::files::remove_folder;
use crate::packages;
use crate::paths::renamed;
use crate::plugin::{self, Platform};
use crate::process::{command, is_root, read, root, run as run_command};
use crate::setup;

/// What to do with it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Play the demo with the agent in a container of the image
    #[arg(long)]
    demo: bool,
}

/// The name that the manifests use, in full: containerd keeps an imported image under the name in
/// the archive, and the kubelet asks for the full one.
const NAME: &str = concat!("docker.io/library/epguard:", env!("CARGO_PKG_VERSION"));

/// Octets for one architecture, unpacked; the compressed image that a node pulls is less than half
/// of that.
const MAX_SIZE: u64 = 20_000_000;

/// What is made.
pub(crate) struct Image {
    /// Of its index.
    pub(crate) digest: String,
    /// The OCI archive.
    pub(crate) archive: PathBuf,
}

/// Makes the image and prints its path.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Image { digest, archive } = make()?;
    println!(
        "image: {NAME} {digest}, {} bytes: {}",
        size(&archive)?,
        archive.display()
    );
    let plugin = target().join("kubectl-epguard");
    fs::copy(plugin::build(Platform::Linux(Arch::host()?))?, &plugin)
        .with_context(|| format!("cannot write {}", plugin.display()))?;
    println!("image: kubectl's plugin: {}", plugin.display());
    println!("image: load it with `podman load -i` or `ctr -n k8s.io images import`");
    if args.demo {
        container::demo(&target(), &archive)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds and packs.
pub(crate) fn make() -> Result<Image> {
    if !is_root() {
        bail!("buildah makes the image's file system: run this as root");
    }
    packages::install_missing(&[("buildah", "buildah")])?;
    build::object(&setup::ebpf()?)?;
    // An index of an earlier run would keep its images.
    let _ = buildah(&["manifest", "rm", NAME]);
    buildah(&["manifest", "create", NAME])?;
    for arch in Arch::ALL {
        let binary = binary(arch)?;
        buildah(&["manifest", "add", NAME, pack(&binary, arch)?.trim()])?;
    }
    let layout = target().join("layout");
    remove_folder(&layout)?;
    buildah(&[
        "manifest",
        "push",
        "--all",
        NAME,
        &format!("oci:{}:{NAME}", layout.display()),
    ])?;
    let archive = target().join("epguard.tar");
    archive::pack(&layout, &["blobs", "index.json", "oci-layout"], &archive)?;
    let index = fs::read_to_string(layout.join("index.json")).context("buildah wrote no index")?;
    let digest = index
        .split('"')
        .find(|word| word.starts_with("sha256:"))
        .context("the index names no image")?
        .to_owned();
    Ok(Image { digest, archive })
}

/// The folder of this verb's files.
pub(crate) fn target() -> PathBuf {
    root().join("target/image")
}

/// Octets of a file.
fn size(file: &Path) -> Result<u64> {
    let read = fs::metadata(file).with_context(|| format!("cannot read {}", file.display()));
    Ok(read?.len())
}

/// Builds the agent.
fn binary(arch: Arch) -> Result<PathBuf> {
    let compiler = Compiler::ensure(arch)?;
    let mut build = compiler.cargo("build", renamed(&[(&target(), "/target")]));
    build.args([
        "--profile",
        build::SHIPPED,
        "--package",
        "epguard",
        "--bin",
        "epguard",
    ]);
    run_command(build.arg("--target-dir").arg(target()))?;
    let binary = target()
        .join(compiler.triple)
        .join(build::SHIPPED)
        .join("epguard");
    let size = size(&binary)?;
    ensure!(
        size <= MAX_SIZE,
        "the image unpacks to {size} bytes, more than {MAX_SIZE}"
    );
    println!("image: {} unpacks to {size} bytes", arch.name());
    Ok(binary)
}

/// Packs the binary alone, with times of 1970, so that the same binary gives the same image.
/// Returns the image's id.
fn pack(binary: &Path, arch: Arch) -> Result<String> {
    let container = buildah(&["from", "--arch", arch.name(), "scratch"])?;
    let container = container.trim();
    let to = "/usr/local/bin/epguard";
    buildah(&[
        "copy",
        "--quiet",
        "--chmod",
        "0755",
        container,
        &binary.display().to_string(),
        to,
    ])?;
    let entrypoint = format!("[\"{to}\"]");
    buildah(&[
        "config",
        "--entrypoint",
        &entrypoint,
        "--env",
        "PATH=/usr/local/bin",
        container,
    ])?;
    let licenses = "org.opencontainers.image.licenses=Apache-2.0 OR MIT";
    buildah(&[
        "config",
        "--label",
        licenses,
        "--arch",
        arch.name(),
        container,
    ])?;
    let identity = ["--identity-label=false", "--disable-compression=false"];
    buildah(&[
        "commit",
        "--quiet",
        "--rm",
        "--timestamp",
        "0",
        identity[0],
        identity[1],
        container,
    ])
}

/// Runs buildah with its own storage, so that it leaves nothing on the machine. Returns what it
/// prints.
fn buildah(arguments: &[&str]) -> Result<String> {
    let mut buildah = command("buildah");
    buildah
        .args(["--storage-driver", "vfs", "--root"])
        .arg(target().join("storage"));
    read(
        buildah
            .arg("--runroot")
            .arg(target().join("storage-run"))
            .args(arguments),
    )
}
