//! `cargo xtask release`: all files of a release in one folder. One commit gives the same files in
//! any folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::archive;
use crate::dependencies;
use crate::files::remove_folder;
use crate::image;
use crate::materials;
use crate::place::{self, VERSION};
use crate::plugin::{self, Platform};
use crate::process::{cargo, command, read, root, run as run_command};
use crate::tools;

/// What to make.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the files will be downloaded from; Krew's manifest names it [default: this version's
    /// release in the repository]
    #[arg(long, value_name = "URL", default_value_t = place::downloads(), hide_default_value = true)]
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
    dependencies::check()?;
    let folder = root().join("target/release-files");
    remove_folder(&folder)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let made = image::make()?;
    println!("release: image {}", made.digest);
    fs::copy(
        &made.archive,
        folder.join(format!("epguard-{VERSION}-image.tar")),
    )?;
    materials::write(&folder, &made.commit)?;
    let log = fs::read_to_string(root().join("CHANGELOG.md")).context("no CHANGELOG.md")?;
    fs::write(folder.join("CHANGELOG.md"), &log)?;
    // Beside the files: the text of the release, not a part of it.
    fs::write(root().join("target/release-notes.md"), notes(&log)?)?;
    for platform in Platform::ALL {
        match binary(platform, &args.plugins)? {
            Some(binary) => pack_plugin(&binary, platform, &folder)?,
            None => println!("release: without a plugin for {platform}: only a Mac builds it"),
        }
    }
    chart(&made.digest, &folder)?;
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

/// What CHANGELOG.md says of this version.
fn notes(log: &str) -> Result<String> {
    let heading = format!("\n## {VERSION}\n");
    let (newer, section) = log
        .split_once(&heading)
        .with_context(|| format!("CHANGELOG.md has no section `{}`", heading.trim()))?;
    ensure!(
        !newer.contains("\n## "),
        "CHANGELOG.md has a section before `{}`: what it lists is in this release, too",
        heading.trim()
    );
    let (section, _) = section.split_once("\n## ").unwrap_or((section, ""));
    Ok(section.trim().to_owned() + "\n")
}

/// The chart, whose default image is that of this release by its digest.
fn chart(digest: &str, folder: &Path) -> Result<()> {
    let copy = root().join("target/release-chart");
    remove_folder(&copy)?;
    fs::create_dir_all(&copy).with_context(|| format!("cannot make {}", copy.display()))?;
    // Helm wants the chart's name as the folder's.
    let chart = copy.join("epguard");
    run_command(
        command("cp")
            .arg("--recursive")
            .arg(root().join("deploy/chart"))
            .arg(&chart),
    )?;
    for (file, default) in [
        ("values.yaml", "  digest: \"\"\n"),
        ("README.md", "| `image.digest` | `\"\"` |"),
    ] {
        let file = chart.join(file);
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let pinned = text.replacen(
            default,
            &default.replace("\"\"", &format!("\"{digest}\"")),
            1,
        );
        ensure!(
            text != pinned,
            "{} has no line {default:?}, where the digest of the image belongs",
            file.display()
        );
        fs::write(&file, pinned)?;
    }
    let archive = folder.join(format!("epguard-{VERSION}.tgz"));
    archive::pack(&copy, &["epguard"], &archive)?;
    remove_folder(&copy)
}

/// Reads `PLATFORM=FILE`.
fn built_elsewhere(text: &str) -> Result<(Platform, PathBuf), String> {
    let (platform, file) = text
        .split_once('=')
        .ok_or("PLATFORM=FILE, as in darwin-arm64=kubectl-epguard")?;
    Ok((platform.parse()?, file.into()))
}

/// The plugin for a platform: one that another machine has built, or this one builds. None for
/// macOS if no other machine has.
fn binary(platform: Platform, built: &[(Platform, PathBuf)]) -> Result<Option<PathBuf>> {
    if let Some((_, file)) = built.iter().find(|(of, _)| *of == platform) {
        return Ok(Some(file.clone()));
    }
    match platform {
        Platform::Darwin(_) => Ok(None),
        Platform::Linux(_) | Platform::Windows => plugin::build(platform).map(Some),
    }
}

/// The plugin with its licences and the script of its completion, as Krew unpacks them.
fn pack_plugin(binary: &Path, platform: Platform, folder: &Path) -> Result<()> {
    let files = folder.join("kubectl-epguard");
    remove_folder(&files)?;
    fs::create_dir_all(&files)?;
    let copy = files.join(platform.binary());
    fs::copy(binary, &copy).with_context(|| format!("cannot read {}", binary.display()))?;
    // What another machine has built comes without this right.
    fs::set_permissions(&copy, Permissions::from_mode(0o755))?;
    materials::write_plugin_notice(platform, &files.join("NOTICE"))?;
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
    std::os::unix::fs::symlink(tools::folder(), clone.join("target/tools"))?;
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

    #[test]
    fn the_notes_are_the_section_of_this_version_and_a_release_without_one_is_refused() {
        let log =
            format!("# Changelog\n\n## {VERSION}\n\n- New.\n- Mended.\n\n## 0.0.1\n\n- Old.\n");
        assert_eq!(notes(&log).unwrap(), "- New.\n- Mended.\n");
        assert!(notes("# Changelog\n\n## 0.0.1\n\n- Old.\n").is_err());
        let unreleased = log.replace(
            "# Changelog\n",
            "# Changelog\n\n## Unreleased\n\n- Newest.\n",
        );
        assert!(notes(&unreleased).is_err());
    }

    #[test]
    fn a_released_chart_has_the_image_by_digest_in_its_values_and_in_their_table() {
        let folder = tempfile::tempdir().unwrap();
        let digest = format!("sha256:{}", "0".repeat(64));
        chart(&digest, folder.path()).unwrap();
        let archive = folder.path().join(format!("epguard-{VERSION}.tgz"));
        for (file, line) in [
            ("values.yaml", format!("  digest: \"{digest}\"\n")),
            ("README.md", format!("| `image.digest` | `\"{digest}\"` |")),
            ("Chart.yaml", format!("home: {}\n", place::REPOSITORY)),
        ] {
            let mut tar = command("tar");
            tar.arg("--extract")
                .arg("--to-stdout")
                .arg("--file")
                .arg(&archive);
            let text = read(tar.arg(format!("epguard/{file}"))).unwrap();
            assert_eq!(text.matches(&line).count(), 1, "{file}: {text}");
        }
    }
}
