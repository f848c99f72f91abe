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
use crate::commit::Commit;
use crate::files::remove_folder;
use crate::packages;
use crate::paths::renamed;
use crate::place;
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

/// What the image is, in its labels.
const DESCRIPTION: &str = "Stops Kubernetes Service traffic to dead pods and reused pod IPs";

/// A user and group that are nobody's. The agent's manifest names root; the pods of a check run as
/// the image says, or as the cluster does.
const USER: &str = "65532:65532";

/// Octets for one architecture, unpacked; the compressed image that a node pulls is less than half
/// of that.
const MAX_SIZE: u64 = 20_000_000;

/// What is made.
pub(crate) struct Image {
    /// Of its index.
    pub(crate) digest: String,
    /// The OCI archive.
    pub(crate) archive: PathBuf,
    /// What it is made of.
    pub(crate) commit: Commit,
}

/// Makes the image and prints its path.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Image {
        digest, archive, ..
    } = make()?;
    println!(
        "image: {} {digest}, {} bytes: {}",
        name(),
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
    build::object(&setup::ebpf()?)?;
    let commit = Commit::read()?;
    let mut binaries = Vec::new();
    for arch in Arch::ALL {
        binaries.push((arch, binary(arch, &commit)?));
    }
    let archive = target().join("epguard.tar");
    let digest = pack_all(&binaries, &commit, &archive)?;
    Ok(Image {
        digest,
        archive,
        commit,
    })
}

/// The name that the manifests use, in full: containerd keeps an imported image under the name in
/// the archive, and the kubelet asks for the full one.
fn name() -> String {
    format!("{}:{}", *place::IMAGE, place::VERSION)
}

/// Packs an image for each binary, and an index of them, into an OCI archive. Returns the digest of
/// the index.
fn pack_all(binaries: &[(Arch, PathBuf)], commit: &Commit, archive: &Path) -> Result<String> {
    packages::install_missing(&[("buildah", "buildah")])?;
    let name = name();
    // An index of an earlier run would keep its images.
    let _ = buildah(&["manifest", "rm", &name]);
    buildah(&["manifest", "create", &name])?;
    for (arch, binary) in binaries {
        let image = pack(binary, *arch, commit)?;
        buildah(&["manifest", "add", &name, image.trim()])?;
    }
    let layout = target().join("layout");
    remove_folder(&layout)?;
    let destination = format!("oci:{}:{name}", layout.display());
    buildah(&["manifest", "push", "--all", &name, &destination])?;
    archive::pack(&layout, &["blobs", "index.json", "oci-layout"], archive)?;
    let index = fs::read_to_string(layout.join("index.json")).context("buildah wrote no index")?;
    let digest = index
        .split('"')
        .find(|word| word.starts_with("sha256:"))
        .context("the index names no image")?;
    Ok(digest.to_owned())
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
fn binary(arch: Arch, commit: &Commit) -> Result<PathBuf> {
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
    build.env("EPGUARD_REVISION", &commit.revision);
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

/// Packs the binary alone, with the commit's time, so that the same binary of one commit gives the
/// same image. Returns the image's id.
fn pack(binary: &Path, arch: Arch, commit: &Commit) -> Result<String> {
    let container = buildah(&["from", "--arch", arch.name(), "scratch"])?;
    let container = container.trim();
    let to = "/usr/local/bin/epguard";
    let from = binary.display().to_string();
    buildah(&["copy", "--quiet", "--chmod", "0755", container, &from, to])?;
    let entrypoint = format!("[\"{to}\"]");
    let mut config = vec![
        "config",
        "--arch",
        arch.name(),
        "--env",
        "PATH=/usr/local/bin",
        "--user",
        USER,
        "--entrypoint",
        &entrypoint,
    ];
    let labels = labels(commit);
    for label in &labels {
        // Docker reads the label, registries read the annotation of the manifest.
        config.extend(["--label", label, "--annotation", label]);
    }
    // buildah leaves the names of a base image empty where there is none.
    config.extend(["--annotation", "org.opencontainers.image.base.name-"]);
    config.extend(["--annotation", "org.opencontainers.image.base.digest-"]);
    config.push(container);
    buildah(&config)?;
    let time = commit.time.as_second().to_string();
    let mut commit = vec!["commit", "--quiet", "--rm", "--timestamp", &time];
    commit.extend(["--identity-label=false", "--disable-compression=false"]);
    commit.push(container);
    buildah(&commit)
}

/// `NAME=VALUE` of each label, by the names that OCI defines.
fn labels(commit: &Commit) -> Vec<String> {
    let time = commit.time.to_string();
    let documentation = format!("{}#readme", place::REPOSITORY);
    let labels = [
        ("created", &*time),
        ("description", DESCRIPTION),
        ("documentation", &documentation),
        ("licenses", env!("CARGO_PKG_LICENSE")),
        ("revision", &commit.revision),
        ("source", place::REPOSITORY),
        ("title", "epguard"),
        ("version", place::VERSION),
    ];
    labels
        .map(|(name, value)| format!("org.opencontainers.image.{name}={value}"))
        .to_vec()
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// The documents of an OCI archive.
    fn documents(archive: &Path) -> Vec<Value> {
        let folder = tempfile::tempdir().unwrap();
        run_command(
            command("tar")
                .arg("--extract")
                .arg("--file")
                .arg(archive)
                .arg("--directory")
                .arg(folder.path()),
        )
        .unwrap();
        let blobs = crate::files::list(&folder.path().join("blobs/sha256")).unwrap();
        let texts = blobs.into_iter().map(fs::read);
        texts
            .filter_map(|text| serde_json::from_slice(&text.unwrap()).ok())
            .collect()
    }

    #[test]
    #[ignore = "needs root: buildah makes a file system"]
    fn an_image_names_its_source_its_commit_and_its_time_and_no_base() {
        let commit = Commit {
            revision: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            time: jiff::Timestamp::from_second(1_767_225_600).unwrap(),
        };
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("image.tar");
        let binary = root().join("LICENSE-MIT");
        let binaries = Arch::ALL.map(|arch| (arch, binary.clone()));
        let digest = pack_all(&binaries, &commit, &archive).unwrap();
        assert_eq!(digest, pack_all(&binaries, &commit, &archive).unwrap());

        let documents = documents(&archive);
        let configs: Vec<&Value> = documents
            .iter()
            .filter(|document| document["config"]["Labels"].is_object())
            .collect();
        let manifests: Vec<&Value> = documents
            .iter()
            .filter(|document| document["layers"].is_array())
            .collect();
        assert_eq!((configs.len(), manifests.len()), (2, 2), "{documents:#?}");
        let expected = serde_json::json!({
            "org.opencontainers.image.created": "2026-01-01T00:00:00Z",
            "org.opencontainers.image.description": DESCRIPTION,
            "org.opencontainers.image.documentation": format!("{}#readme", place::REPOSITORY),
            "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
            "org.opencontainers.image.revision": commit.revision,
            "org.opencontainers.image.source": place::REPOSITORY,
            "org.opencontainers.image.title": "epguard",
            "org.opencontainers.image.version": place::VERSION,
        });
        for config in configs {
            assert_eq!(config["config"]["Labels"], expected);
            assert_eq!(config["created"], "2026-01-01T00:00:00Z");
        }
        for manifest in manifests {
            assert_eq!(manifest["annotations"], expected);
        }
    }
}
