//! `cargo xtask release`: all files of a release in one folder. One commit gives the same files in
//! any folder.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::arch::Arch;
use crate::archive;
use crate::files::remove_folder;
use crate::image;
use crate::process::{cargo, command, read, root, run as run_command};
use crate::tools;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What to make.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the files will be downloaded from; Krew's manifest names it
    #[arg(long, value_name = "URL")]
    url: String,
    /// Make them again from a clone in another folder, and fail unless they are equal
    #[arg(long)]
    verify: bool,
}

/// Makes the files and prints their digests.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let changed = read(command("git").args(["status", "--porcelain"]))?;
    ensure!(
        changed.is_empty(),
        "a release is made of a commit, and here are changes without one:\n{changed}"
    );
    check_dependencies()?;
    let folder = root().join("target/release-files");
    remove_folder(&folder)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let made = image::make()?;
    println!("release: image {}", made.digest);
    fs::copy(
        &made.archive,
        folder.join(format!("epguard-{VERSION}-image.tar")),
    )?;
    notice(&folder)?;
    bill_of_materials(&folder)?;
    fs::copy(root().join("CHANGELOG.md"), folder.join("CHANGELOG.md"))?;
    for (arch, binary) in &made.binaries {
        plugin(binary, *arch, &folder)?;
    }
    // Helm wants the chart's name as the folder's.
    let chart = format!("epguard-{VERSION}.tgz");
    archive::pack(
        &root().join("deploy"),
        &["--transform=s,^chart,epguard,", "chart"],
        &folder.join(chart),
    )?;
    fs::write(folder.join("krew.yaml"), krew(&args.url, &sums(&folder)?)?)?;
    let sums = sums(&folder)?;
    fs::write(folder.join("SHA256SUMS"), &sums)?;
    print!("{sums}");
    println!("release: {}", folder.display());
    if args.verify {
        ensure!(
            again(&args.url)? == sums,
            "made again in another folder, the files differ"
        );
        println!("release: made again in another folder, the same files");
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks the dependencies' licences and sources.
pub(crate) fn check_dependencies() -> Result<()> {
    let deny = tools::cargo_tool("cargo-deny", "0.20.2", "")?;
    run_command(command(deny).args(["check", "bans", "licenses", "sources"]))
}

/// All licences of what the binary contains.
fn notice(folder: &Path) -> Result<()> {
    let about = tools::cargo_tool("cargo-about", "0.9.3", "cli")?;
    let mut about = command(about);
    about.args([
        "about",
        "generate",
        "--fail",
        "--offline",
        "--manifest-path",
        "agent/Cargo.toml",
    ]);
    run_command(
        about
            .arg("--output-file")
            .arg(folder.join("NOTICE"))
            .arg("xtask/release/notice.hbs"),
    )
}

/// The crates in the binary, as `CycloneDX`.
fn bill_of_materials(folder: &Path) -> Result<()> {
    let cyclonedx = tools::cargo_tool("cargo-cyclonedx", "0.5.9", "")?;
    let mut cyclonedx = command(cyclonedx);
    let options =
        "cyclonedx --manifest-path agent/Cargo.toml --format json --target all --no-build-deps";
    cyclonedx.args(options.split(' '));
    // Without a time and a random number in it.
    run_command(
        cyclonedx
            .args(["--override-filename", "sbom"])
            .env("SOURCE_DATE_EPOCH", "0"),
    )?;
    // It writes one file for each crate of the workspace.
    let written =
        read(command("git").args(["ls-files", "--others", "--exclude-standard", "*sbom.json"]))?;
    let bill = fs::read_to_string(root().join("agent/sbom.json"))
        .context("cargo-cyclonedx wrote no sbom.json")?;
    // Crates of the workspace are named by this machine's folder.
    let bill = bill.replace(
        &format!("path+file://{}", root().display()),
        "path+file:///epguard",
    );
    fs::write(folder.join(format!("epguard-{VERSION}.cdx.json")), bill)?;
    written
        .lines()
        .try_for_each(|file| fs::remove_file(root().join(file)))
        .context("cannot remove sbom.json")
}

/// `kubectl-epguard` with its licences, as Krew unpacks it.
fn plugin(binary: &Path, arch: Arch, folder: &Path) -> Result<()> {
    let files = folder.join("kubectl-epguard");
    remove_folder(&files)?;
    fs::create_dir_all(&files)?;
    fs::copy(binary, files.join("kubectl-epguard"))?;
    fs::copy(folder.join("NOTICE"), files.join("NOTICE"))?;
    let contents = ["kubectl-epguard", "NOTICE"];
    archive::pack(&files, &contents, &folder.join(plugin_name(arch)))?;
    remove_folder(&files)
}

fn plugin_name(arch: Arch) -> String {
    format!("kubectl-epguard-{VERSION}-linux-{}.tar.gz", arch.name())
}

fn sums(folder: &Path) -> Result<String> {
    read(
        command("sh")
            .args(["-c", "sha256sum *"])
            .current_dir(folder),
    )
}

/// Krew's manifest of the plugin.
fn krew(url: &str, sums: &str) -> Result<String> {
    let mut manifest = include_str!("../release/krew.yaml").replace("@VERSION@", VERSION);
    for arch in Arch::ALL {
        let name = plugin_name(arch);
        let sum = sums
            .lines()
            .find(|line| line.ends_with(&name))
            .and_then(|line| line.split(' ').next())
            .with_context(|| format!("{name} has no digest"))?;
        let platform = include_str!("../release/krew-platform.yaml")
            .replace("@ARCH@", arch.name())
            .replace("@SUM@", sum);
        manifest += &platform.replace("@URI@", &format!("{}/{name}", url.trim_end_matches('/')));
    }
    Ok(manifest)
}

/// The digests of a release that a clone makes, with the tools that are here.
fn again(url: &str) -> Result<String> {
    let clone = root().join("target/release-again/epguard");
    remove_folder(&clone)?;
    run_command(
        command("git")
            .args(["clone", "--quiet"])
            .arg(root())
            .arg(&clone),
    )?;
    fs::create_dir_all(clone.join("target"))?;
    std::os::unix::fs::symlink(root().join("target/tools"), clone.join("target/tools"))?;
    run_command(
        cargo()
            .current_dir(&clone)
            .args(["xtask", "release", "--url", url]),
    )?;
    let sums = fs::read_to_string(clone.join("target/release-files/SHA256SUMS"))?;
    remove_folder(&clone)?;
    Ok(sums)
}
