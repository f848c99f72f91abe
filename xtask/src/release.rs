//! `cargo xtask release`: all files of a release in one folder. One commit gives the same files in
//! any folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::archive;
use crate::files::remove_folder;
use crate::image;
use crate::plugin::{self, Platform};
use crate::process::{cargo, command, read, root, run as run_command};
use crate::tools;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What to make.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the files will be downloaded from; Krew's manifest names it
    #[arg(long, value_name = "URL")]
    url: String,
    /// A plugin that another machine has built, as a Mac builds macOS's; repeatedly for more
    #[arg(long = "plugin", value_name = "PLATFORM=FILE", value_parser = built_elsewhere)]
    plugins: Vec<(Platform, PathBuf)>,
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
    notice("agent", &folder.join("NOTICE"))?;
    bill_of_materials(&folder)?;
    fs::copy(root().join("CHANGELOG.md"), folder.join("CHANGELOG.md"))?;
    for platform in Platform::ALL {
        match binary(platform, &args.plugins) {
            Ok(binary) => pack_plugin(&binary, platform, &folder)?,
            Err(why) => println!("release: without a plugin for {platform}: {why:#}"),
        }
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
            again(args)? == sums,
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

/// All licences of what the binary of a crate contains.
fn notice(crate_folder: &str, to: &Path) -> Result<()> {
    let about = tools::cargo_tool("cargo-about", "0.9.3", "cli")?;
    let mut about = command(about);
    about.args([
        "about",
        "generate",
        "--fail",
        "--offline",
        "--manifest-path",
        &format!("{crate_folder}/Cargo.toml"),
    ]);
    run_command(
        about
            .arg("--output-file")
            .arg(to)
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

/// Reads `PLATFORM=FILE`.
fn built_elsewhere(text: &str) -> Result<(Platform, PathBuf), String> {
    let (platform, file) = text
        .split_once('=')
        .ok_or("PLATFORM=FILE, as in darwin-arm64=kubectl-epguard")?;
    Ok((platform.parse()?, file.into()))
}

/// The plugin for a platform: one that another machine has built, or this one builds.
fn binary(platform: Platform, built: &[(Platform, PathBuf)]) -> Result<PathBuf> {
    match built.iter().find(|(of, _)| *of == platform) {
        Some((_, file)) => Ok(file.clone()),
        None => plugin::build(platform),
    }
}

/// The plugin with its licences and the script of its completion, as Krew unpacks them.
fn pack_plugin(binary: &Path, platform: Platform, folder: &Path) -> Result<()> {
    let files = folder.join("kubectl-epguard");
    remove_folder(&files)?;
    fs::create_dir_all(&files)?;
    fs::copy(binary, files.join(platform.binary()))
        .with_context(|| format!("cannot read {}", binary.display()))?;
    notice("agent/plugin", &files.join("NOTICE"))?;
    let script = "kubectl_complete-epguard";
    fs::copy(root().join("agent/plugin").join(script), files.join(script))?;
    let contents = [platform.binary(), script, "NOTICE"];
    archive::pack(&files, &contents, &folder.join(plugin_name(platform)))?;
    remove_folder(&files)
}

fn plugin_name(platform: Platform) -> String {
    format!("kubectl-epguard-{VERSION}-{platform}.tar.gz")
}

fn sums(folder: &Path) -> Result<String> {
    read(
        command("sh")
            .args(["-c", "sha256sum *"])
            .current_dir(folder),
    )
}

/// Krew's manifest of the plugin, with the platforms that have an archive.
fn krew(url: &str, sums: &str) -> Result<String> {
    let mut manifest = include_str!("../release/krew.yaml").replace("@VERSION@", VERSION);
    let mut platforms = 0;
    for platform in Platform::ALL {
        let name = plugin_name(platform);
        let line = sums.lines().find(|line| line.ends_with(&name));
        let Some(sum) = line.and_then(|line| line.split(' ').next()) else {
            continue;
        };
        platforms += 1;
        let entry = include_str!("../release/krew-platform.yaml")
            .replace("@OS@", platform.os())
            .replace("@ARCH@", platform.arch().name())
            .replace("@BIN@", platform.binary())
            .replace("@SUM@", sum);
        manifest += &entry.replace("@URI@", &format!("{}/{name}", url.trim_end_matches('/')));
    }
    ensure!(platforms > 0, "there is no archive of the plugin");
    Ok(manifest)
}

/// The digests of a release that a clone makes, with the tools that are here.
fn again(args: &Args) -> Result<String> {
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
    let mut release = cargo();
    release
        .current_dir(&clone)
        .args(["xtask", "release", "--url", &args.url]);
    for (platform, file) in &args.plugins {
        let file = fs::canonicalize(file)?;
        release.arg(format!("--plugin={platform}={}", file.display()));
    }
    run_command(&mut release)?;
    let sums = fs::read_to_string(clone.join("target/release-files/SHA256SUMS"))?;
    remove_folder(&clone)?;
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn krews_manifest_lists_each_platform_that_has_an_archive() {
        let names = Platform::ALL.map(plugin_name);
        let sums = names.map(|name| format!("{:064}  {name}\n", 7)).concat();
        let manifest = krew("https://example.com/v/", &sums).unwrap();
        for platform in Platform::ALL {
            let uri = format!("uri: https://example.com/v/{}", plugin_name(platform));
            assert!(manifest.contains(&uri), "{manifest}");
        }
        assert!(manifest.contains("bin: kubectl-epguard.exe") && !manifest.contains('@'));
        let linux = plugin_name(Platform::ALL[0]);
        let manifest = krew("https://example.com", &format!("00  {linux}\n")).unwrap();
        assert!(manifest.contains("os: linux") && !manifest.contains("os: darwin"));
        assert!(krew("https://example.com", "00  NOTICE\n").is_err());
    }
}
