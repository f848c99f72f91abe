//! `epguard detach`: removes everything of ours, from every earlier process, and nothing else.

use super::object::check_privileges;
use super::pins::{self, Pins};
use super::{clsact, links};
use anyhow::{Context as _, Result};
use nix::net::if_::{Interface, if_nameindex};
use std::fs;
use std::io::ErrorKind::{DirectoryNotEmpty, NotFound, ResourceBusy};
use std::path::Path;

/// Removes links, maps and directories of all ABI versions from the pin directory, and our filters
/// and qdiscs from the interfaces of this network namespace. Returns one line for each removed
/// thing; the second time none.
///
/// Stop the agent first: without its pin directory it cannot attach again.
pub fn detach(pin_dir: &Path) -> Result<Vec<String>> {
    check_privileges()?;
    let pins = Pins::in_directory(pin_dir);
    let mut removed = Vec::new();
    if pin_dir.exists() {
        pins.check()?;
        for version in pins.versions(false)? {
            removed.extend(remove_version(&version)?);
        }
    }
    // After the links, so that no packet meets a filter whose maps are gone before its turn.
    for ifindex in interfaces(&pins)? {
        if clsact::detach(&pins, ifindex).with_context(|| format!("interface {ifindex}"))? {
            removed.push(format!("clsact filters of interface {ifindex}"));
        }
    }
    for directory in [pin_dir.join("clsact"), pin_dir.to_owned()] {
        removed.extend(remove_empty(&directory)?);
    }
    Ok(removed)
}

/// Removes a directory of one ABI version. Everything in it was made by epguard.
pub fn remove_version(directory: &Path) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    let links_directory = directory.join("links");
    for link in pins::list(&links_directory)? {
        if links::remove(&link)? {
            removed.push(format!("link {}", link.display()));
        }
    }
    removed.extend(remove_empty(&links_directory)?);
    for map in pins::list(directory)? {
        pins::unpin(&map)?;
        removed.push(format!("map {}", map.display()));
    }
    removed.extend(remove_empty(directory)?);
    Ok(removed)
}

/// Removes what an earlier process left on interfaces that are gone or not `hooked` any more, and
/// other ABI versions.
pub fn remove_leftovers(pins: &Pins, hooked: impl Fn(u32) -> bool) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for ifindex in interfaces(pins)?
        .into_iter()
        .filter(|ifindex| !hooked(*ifindex))
    {
        if links::detach_tcx(pins, ifindex)?
            | clsact::detach(pins, ifindex)?
            | links::detach_xdp(pins, ifindex)?
        {
            removed.push(format!("hooks of interface {ifindex}"));
        }
    }
    for version in pins.versions(true)? {
        removed.extend(remove_version(&version)?);
    }
    Ok(removed)
}

/// The interfaces that the pin directory names, and those of this network namespace.
fn interfaces(pins: &Pins) -> Result<Vec<u32>> {
    let mut interfaces = pins.interfaces()?;
    let here = if_nameindex().context("cannot list network interfaces")?;
    interfaces.extend(here.iter().map(Interface::index));
    Ok(interfaces.into_iter().collect())
}

/// Removes a directory if it is empty: other contents are not ours.
fn remove_empty(directory: &Path) -> Result<Option<String>> {
    let kept = [NotFound, DirectoryNotEmpty, ResourceBusy];
    match fs::remove_dir(directory) {
        Ok(()) => Ok(Some(format!("directory {}", directory.display()))),
        Err(error) if kept.contains(&error.kind()) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot remove {}", directory.display())),
    }
}
