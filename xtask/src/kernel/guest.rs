//! A kernel from its package, with the files that it needs to boot.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{folder, qemu};
use crate::arch::Arch;
use crate::files::remove_folder;
use crate::ladder::Count;
use crate::packages;
use crate::process::{command, read, root, run, which};
use crate::setup;

/// Modules for access to this machine's files, each after those that it needs.
const FIRST: [&str; 11] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "netfs",
    "fscache",
    "9pnet",
    "9pnet_virtio",
    "9p",
    "overlay",
];

/// Packages of a foreign machine, beside those of the lab's programs.
const FOREIGN: [&str; 9] = [
    "linux-image-arm64",
    "bash",
    "busybox-static",
    "coreutils",
    "ipvsadm",
    "kmod",
    "libcap2-bin",
    "mount",
    "util-linux",
];

pub(super) struct Guest {
    arch: Arch,
    /// `6.1.0-9-amd64`
    pub(super) release: String,
    /// Folder of the package's contents.
    unpacked: PathBuf,
    /// The root of its files: this machine's, or Debian's for the foreign architecture.
    files: PathBuf,
}

impl Guest {
    /// Unpacks a kernel, Debian's own if none is given.
    pub(super) fn new(arch: Arch, given: &[PathBuf]) -> Result<Self> {
        if arch != Arch::host()? {
            return Self::foreign(arch);
        }
        let files = match given {
            [] => vec![debians(arch)?],
            given => given.to_vec(),
        };
        let unpacked = folder().join("unpacked");
        remove_folder(&unpacked)?;
        fs::create_dir_all(&unpacked)?;
        for file in &files {
            packages::unpack(file, &unpacked)?;
        }
        Self::unpacked(arch, unpacked, "/".into())
    }

    /// Unpacks Debian's kernel and programs for an architecture that is not this machine's.
    fn foreign(arch: Arch) -> Result<Self> {
        let tree = folder().join(format!("tree-{}", arch.name()));
        let foreign = FOREIGN.map(|package| package.replace("arm64", arch.name()));
        let packages = foreign
            .iter()
            .map(String::as_str)
            .chain(setup::PROGRAMS.map(|(_, package)| package));
        packages::unpack_all(arch, &packages.collect::<Vec<_>>(), &tree)?;
        let place = tree.join(root().strip_prefix("/")?);
        fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
        Self::unpacked(arch, tree.clone(), tree)
    }

    fn unpacked(arch: Arch, unpacked: PathBuf, files: PathBuf) -> Result<Self> {
        let modules = unpacked.join("lib/modules");
        let mut releases = fs::read_dir(&modules).with_context(|| {
            format!(
                "{}: no kernel with modules was unpacked",
                unpacked.display()
            )
        })?;
        let release = releases
            .next()
            .context("a kernel without modules")??
            .file_name()
            .to_string_lossy()
            .into_owned();
        // busybox loads only plain modules.
        run(command("find")
            .arg(&unpacked)
            .args(["-name", "*.ko.xz", "-exec", "xz", "-d", "{}", "+"]))?;
        run(command("depmod").arg("-b").arg(&unpacked).arg(&release))?;
        Ok(Self {
            arch,
            release,
            unpacked,
            files,
        })
    }

    /// The command that boots the kernel and runs `work`, one shell line each, in the workspace's
    /// root.
    pub(super) fn machine(&self, work: &str) -> Result<Command> {
        let shared = folder().join("shared");
        fs::create_dir_all(&shared)?;
        let ended = shared.join("ended");
        if ended.exists() {
            fs::remove_file(&ended)?;
        }
        let script = include_str!("inside.sh")
            .replace("@MODULES@", &self.modules().display().to_string())
            .replace("@ROOT@", &root().display().to_string())
            .replace("@WORK@", work);
        fs::write(shared.join("inside.sh"), script)?;
        let kernel = self.unpacked.join(format!("boot/vmlinuz-{}", self.release));
        Ok(qemu(self.arch, &kernel, &self.initrd()?, &self.files))
    }

    /// Where the machine finds the modules.
    fn modules(&self) -> PathBuf {
        let modules = self.unpacked.join("lib/modules");
        modules
            .strip_prefix(&self.files)
            .map_or(modules.clone(), |below| Path::new("/").join(below))
    }

    /// Fails if the machine crashed: then it has done only a part of the work.
    pub(super) fn has_ended(&self) -> Result<Count> {
        let ended = folder().join("shared/ended");
        ensure!(
            ended.exists(),
            "Linux {} did not finish its work",
            self.release
        );
        Ok(Count {
            passed: 1,
            failed: 0,
        })
    }

    fn initrd(&self) -> Result<PathBuf> {
        let files = folder().join("initrd");
        for folder in [
            "bin", "modules", "proc", "sys", "dev", "host", "writes", "node",
        ] {
            fs::create_dir_all(files.join(folder))?;
        }
        let busybox = match self.files.join("bin/busybox") {
            foreign if foreign.exists() => foreign,
            _ => which("busybox").context("there is no busybox")?,
        };
        fs::copy(busybox, files.join("bin/busybox"))?;
        fs::write(files.join("init"), include_str!("init.sh"))?;
        fs::set_permissions(files.join("init"), Permissions::from_mode(0o755))?;
        let all = read(command("find").arg(&self.unpacked).args(["-name", "*.ko"]))?;
        let mut order = Vec::new();
        for name in FIRST {
            let end = format!("/{name}.ko");
            // A module without a file is part of the kernel.
            if let Some(module) = all.lines().find(|path| path.ends_with(&end)) {
                fs::copy(module, files.join("modules").join(format!("{name}.ko")))?;
                order.push(name);
            }
        }
        fs::write(files.join("order"), order.join("\n") + "\n")?;
        let initrd = folder().join("initrd.cpio");
        let pack = format!("find . | cpio --quiet -o -H newc > {}", initrd.display());
        run(command("sh").args(["-c", &pack]).current_dir(&files))?;
        Ok(initrd)
    }
}

/// This release's kernel, as a package that is not installed.
fn debians(arch: Arch) -> Result<PathBuf> {
    let package = format!("linux-image-{}", arch.name());
    let shown = read(command("apt-cache").args(["depends", "--important", &package]))?;
    let depends = shown.split_once("Depends:");
    let name = depends
        .and_then(|(_, names)| names.split_whitespace().next())
        .with_context(|| format!("apt-cache knows no {package}: run apt-get update"))?;
    packages::download(name, &folder())
}
