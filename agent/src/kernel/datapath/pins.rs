//! The paths in the pin directory, a bpffs.
//!
//! ```text
//! <pin-dir>/v3/OWNERS ...           maps
//! <pin-dir>/v3/links/12-from ...    TCX links, by interface number: another interface may get the name
//! <pin-dir>/v3/links/12-xdp         the XDP link of an uplink
//! <pin-dir>/v3/links/lb-34-...      links around a socket load balancer, by cgroup id: no id comes twice
//! <pin-dir>/clsact/12/              a directory for each clsact qdisc that we made
//! ```

use super::hook::Hook;
use crate::kernel::maps;
use anyhow::{Context as _, Result, ensure};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How the pins of links around a socket load balancer begin.
const SOCKET_LB: &str = "lb-";

/// A pin directory.
#[derive(Debug, Clone)]
pub struct Pins {
    root: PathBuf,
}

impl Pins {
    /// Names the paths of a pin directory; touches nothing.
    pub fn in_directory(pin_dir: &Path) -> Self {
        Self {
            root: pin_dir.to_owned(),
        }
    }

    /// Makes the directories of this ABI version.
    pub fn make(pin_dir: &Path) -> Result<Self> {
        let pins = Self::in_directory(pin_dir);
        for directory in [pins.links(), pins.root.join("clsact")] {
            fs::create_dir_all(&directory).with_context(|| {
                format!(
                    "cannot make {}: mount bpffs there (mount -t bpf bpf /sys/fs/bpf)",
                    directory.display()
                )
            })?;
        }
        pins.check()?;
        Ok(pins)
    }

    /// Refuses a directory that is no bpffs.
    pub fn check(&self) -> Result<()> {
        ensure!(
            statfs(&self.root).is_ok_and(|stat| stat.filesystem_type() == BPF_FS_MAGIC),
            "{} is not on a bpf file system: mount one (mount -t bpf bpf /sys/fs/bpf) or give another --pin-dir",
            self.root.display()
        );
        Ok(())
    }

    /// `<pin-dir>`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of the maps of this version.
    pub fn maps(&self) -> PathBuf {
        maps::directory(&self.root)
    }

    fn links(&self) -> PathBuf {
        self.maps().join("links")
    }

    /// The link of an interface's hook.
    pub fn link(&self, ifindex: u32, hook: Hook) -> PathBuf {
        self.links().join(format!("{ifindex}-{}", hook.as_str()))
    }

    /// The XDP link of an interface.
    pub fn xdp_link(&self, ifindex: u32) -> PathBuf {
        self.links().join(format!("{ifindex}-xdp"))
    }

    /// The same in the directories of other ABI versions. An interface takes one XDP program.
    pub fn foreign_xdp_links(&self, ifindex: u32) -> Result<Vec<PathBuf>> {
        let versions = self.versions(true)?.into_iter();
        Ok(versions
            .map(|version| version.join(format!("links/{ifindex}-xdp")))
            .collect())
    }

    /// The link of a program before or after a socket load balancer, on the cgroup with this id.
    pub fn socket_lb_link(&self, cgroup: u64, program: &str) -> PathBuf {
        self.links().join(format!("{SOCKET_LB}{cgroup}-{program}"))
    }

    /// Such links that are pinned here.
    pub fn socket_lb_links(&self) -> Result<Vec<PathBuf>> {
        let mut links = list(&self.links())?;
        links.retain(|path| name(path).is_some_and(|name| name.starts_with(SOCKET_LB)));
        Ok(links)
    }

    /// Path whose existence marks the interface's clsact qdisc as ours.
    pub fn made_clsact(&self, ifindex: u32) -> PathBuf {
        self.root.join("clsact").join(ifindex.to_string())
    }

    /// Interfaces that any path here is about.
    pub fn interfaces(&self) -> Result<BTreeSet<u32>> {
        let links = list(&self.links())?;
        let qdiscs = list(&self.root.join("clsact"))?;
        Ok(links
            .iter()
            .chain(&qdiscs)
            .filter_map(|path| number(path))
            .collect())
    }

    /// The pins of links and those of maps, of all ABI versions.
    pub fn all(&self) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let mut links = Vec::new();
        let mut maps = Vec::new();
        for version in self.versions(false)? {
            let of_links = version.join("links");
            links.extend(list(&of_links)?);
            maps.extend(list(&version)?.into_iter().filter(|path| *path != of_links));
        }
        Ok((links, maps))
    }

    /// The directories of all ABI versions, or of all but this one.
    pub fn versions(&self, but_own: bool) -> Result<Vec<PathBuf>> {
        let own = self.maps();
        let mut versions = list(&self.root)?;
        versions.retain(|path| is_version(path) && !(but_own && *path == own));
        Ok(versions)
    }
}

/// The contents of a directory, in order; empty if it is not there.
pub fn list(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.with_context(|| format!("cannot list {}", directory.display()))?,
    };
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("cannot list {}", directory.display()))?;
    paths.sort();
    Ok(paths)
}

/// Removes a pin, if there is one.
pub fn unpin(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| format!("cannot remove the pin {}", path.display())),
    }
}

fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn is_version(path: &Path) -> bool {
    let digits = name(path).and_then(|name| name.strip_prefix('v'));
    digits.is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// `12` of `12-from` and of `12`.
fn number(path: &Path) -> Option<u32> {
    name(path)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_v_and_digits_name_a_version_and_pins_of_interfaces_begin_with_their_number() {
        for (name, version) in [
            ("v1", true),
            ("v12", true),
            ("v", false),
            ("vx", false),
            ("clsact", false),
        ] {
            assert_eq!(is_version(Path::new(name)), version, "{name}");
        }
        let numbers =
            ["12-from", "7", "lb-34-epguard_after_connect4"].map(|name| number(Path::new(name)));
        assert_eq!(numbers, [Some(12), Some(7), None]);
    }
}
