//! The crates in a binary: those that cargo links for its target, by their sources in Cargo.lock.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process::{cargo, read, root};

/// A crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression.
    pub(super) license: String,
    pub(super) description: Option<String>,
    pub(super) repository: Option<String>,
    /// SHA-256 of the archive in the registry; none for a crate of this workspace.
    pub(super) checksum: Option<String>,
    /// `NAME@VERSION` of the crates that it links.
    pub(super) dependencies: BTreeSet<String>,
}

impl Crate {
    /// `NAME@VERSION`.
    pub(super) fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// The crates in the binary of a package, for one target. Build scripts, macros and tests run
/// elsewhere, and are not in it.
pub(super) fn of(package: &str, triple: &str) -> Result<Vec<Crate>> {
    let linked = linked(package, triple)?;
    let mut metadata = cargo();
    metadata.args(["metadata", "--locked", "--format-version", "1"]);
    let metadata = read(metadata.args(["--filter-platform", triple]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is no JSON")?;
    let checksums = fs::read_to_string(root().join("Cargo.lock")).context("no Cargo.lock")?;
    let mut crates = Vec::new();
    for package in array(&metadata["packages"]) {
        if !linked.contains(&id(package)) {
            continue;
        }
        let mut found = read_package(package)?;
        found.checksum = checksum(&checksums, &found);
        found.dependencies = dependencies(&metadata, &package["id"])
            .filter(|id| linked.contains(id))
            .collect();
        crates.push(found);
    }
    ensure!(
        crates.len() == linked.len(),
        "cargo metadata describes {} of the {} crates in {package}",
        crates.len(),
        linked.len()
    );
    crates.sort();
    Ok(crates)
}

/// Adds crates to others. A crate that both have keeps the dependencies of both.
pub(super) fn merge(crates: &mut Vec<Crate>, more: Vec<Crate>) {
    for new in more {
        match crates.iter_mut().find(|old| old.id() == new.id()) {
            Some(old) => old.dependencies.extend(new.dependencies),
            None => crates.push(new),
        }
    }
    crates.sort();
}

/// `NAME@VERSION` of what cargo links into the package's binary: `cargo tree` chooses the features
/// that a build of this package alone has.
fn linked(package: &str, triple: &str) -> Result<BTreeSet<String>> {
    let mut tree = cargo();
    tree.args(["tree", "--locked", "--package", package, "--target", triple]);
    tree.args(["--edges", "normal,no-proc-macro", "--prefix", "none"]);
    let tree = read(tree.args(["--no-dedupe", "--format", "{p}"]))?;
    let crates = tree.lines().filter_map(|line| {
        // `serde v1.0.0`, or `epguard v0.1.0 (/folder)`.
        let mut words = line.split(' ');
        let name = words.next()?;
        let version = words.next()?.strip_prefix('v')?;
        Some(format!("{name}@{version}"))
    });
    Ok(crates.collect())
}

/// `NAME@VERSION` of a package in the metadata.
fn id(package: &Value) -> String {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    format!("{}@{}", text("name"), text("version"))
}

fn read_package(package: &Value) -> Result<Crate> {
    let text = |field: &str| package[field].as_str().map(str::to_owned);
    let name = text("name").context("a package has no name")?;
    let license = text("license").with_context(|| format!("{name} names no licence"))?;
    Ok(Crate {
        version: text("version").with_context(|| format!("{name} has no version"))?,
        // The spelling of an SPDX expression before there were any.
        license: license.replace('/', " OR "),
        description: text("description").map(|text| text.trim().to_owned()),
        repository: text("repository"),
        checksum: None,
        dependencies: BTreeSet::new(),
        name,
    })
}

/// `NAME@VERSION` of what a package needs other than for its build and its tests.
fn dependencies<'a>(metadata: &'a Value, of: &'a Value) -> impl Iterator<Item = String> + 'a {
    let nodes = array(&metadata["resolve"]["nodes"]);
    let node = nodes.iter().find(|node| node["id"] == *of);
    let needed = node.into_iter().flat_map(|node| array(&node["deps"]));
    let needed = needed.filter(|needed| {
        let kinds = array(&needed["dep_kinds"]);
        kinds.iter().any(|kind| kind["kind"].is_null())
    });
    let packages = array(&metadata["packages"]);
    needed.filter_map(|needed| {
        let package = packages.iter().find(|one| one["id"] == needed["pkg"])?;
        Some(id(package))
    })
}

/// The checksum in Cargo.lock, whose entries begin with name, version, source and checksum.
fn checksum(lock: &str, found: &Crate) -> Option<String> {
    let entry = format!(
        "name = \"{}\"\nversion = \"{}\"\n",
        found.name, found.version
    );
    let (_, rest) = lock.split_once(&entry)?;
    let (entry, _) = rest.split_once("\n[[package]]").unwrap_or((rest, ""));
    let checksum = entry
        .lines()
        .find_map(|line| line.strip_prefix("checksum = "))?;
    Some(checksum.trim_matches('"').to_owned())
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_crates_are_there_once_with_the_dependencies_of_both() {
        let common = |dependency: &str| Crate {
            name: "common".to_owned(),
            version: "0.1.0".to_owned(),
            license: "MIT".to_owned(),
            description: None,
            repository: None,
            checksum: None,
            dependencies: BTreeSet::from([dependency.to_owned()]),
        };
        let mut crates = vec![common("aya@1.0.0")];
        merge(&mut crates, vec![common("aya-ebpf@1.0.0")]);
        assert_eq!(crates.len(), 1);
        assert_eq!(crates[0].dependencies.len(), 2);
    }
}
