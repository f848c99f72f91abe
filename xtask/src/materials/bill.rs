//! The bill of materials of a binary, as `CycloneDX`. One commit gives the same document at any
//! time and place.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::crates::Crate;
use super::system::Library;
use super::{AGENT, Materials, OBJECT};
use crate::commit::Commit;
use crate::place::{REPOSITORY, VERSION};
use crate::process::{command, read};

/// Writes the bill into a file.
pub(super) fn write(
    file: &Path,
    triple: &str,
    materials: &Materials,
    commit: &Commit,
) -> Result<()> {
    let mut bill = bill(triple, materials, commit);
    save(file, &bill)?;
    let digest = read(command("sha256sum").arg(file))?;
    bill["serialNumber"] = json!(serial_number(&digest));
    save(file, &bill)
}

fn save(file: &Path, bill: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(bill)? + "\n";
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn bill(triple: &str, materials: &Materials, commit: &Commit) -> Value {
    let root = format!("{AGENT}@{VERSION}");
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for one in &materials.crates {
        let mut depends_on = one.dependencies.clone();
        if one.id() == root {
            depends_on.extend(
                materials
                    .libraries
                    .iter()
                    .map(|library| library.purl.clone()),
            );
            depends_on.insert(format!("{OBJECT}@{VERSION}"));
        } else {
            components.push(crate_component(one));
        }
        dependencies.push(json!({"ref": one.id(), "dependsOn": depends_on}));
    }
    for library in &materials.libraries {
        components.push(library_component(library));
    }
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": commit.time.to_string(),
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": AGENT,
                "version": VERSION,
                "licenses": [{"expression": env!("CARGO_PKG_LICENSE")}],
                "externalReferences": [{"type": "vcs", "url": REPOSITORY}],
                "properties": [
                    {"name": "epguard:commit", "value": commit.revision},
                    {"name": "epguard:target", "value": triple},
                ],
            },
        },
        "components": components,
        "dependencies": dependencies,
    })
}

/// A crate has an address in the registry, if it is there.
fn crate_component(one: &Crate) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": one.id(),
        "name": one.name,
        "version": one.version,
        "scope": "required",
        "licenses": [{"expression": one.license}],
    });
    if let Some(description) = &one.description {
        component["description"] = json!(description);
    }
    if let Some(repository) = &one.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    if let Some(checksum) = &one.checksum {
        component["purl"] = json!(format!("pkg:cargo/{}", one.id()));
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

fn library_component(library: &Library) -> Value {
    json!({
        "type": "library",
        "bom-ref": library.purl,
        "name": library.name,
        "version": library.version,
        "scope": "required",
        "licenses": [{"expression": library.license}],
        "purl": library.purl,
    })
}

/// A UUID of the document's digest, in the form that RFC 9562 leaves to the one who makes it
/// (version 8).
fn serial_number(digest: &str) -> String {
    let hex = &digest[..32];
    format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TARGETS, materials_for};
    use super::*;
    use std::collections::BTreeSet;

    /// The bill that is written, as its text.
    fn written(triple: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bill.json");
        let commit = Commit {
            revision: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            time: jiff::Timestamp::from_second(1_767_225_600).unwrap(),
        };
        write(&file, triple, &materials_for(triple), &commit).unwrap();
        fs::read_to_string(&file).unwrap()
    }

    fn read_bill(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    fn names(bill: &Value) -> BTreeSet<&str> {
        let components = bill["components"].as_array().unwrap();
        components
            .iter()
            .map(|component| component["name"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn the_bill_has_what_the_binary_contains_and_nothing_of_other_systems_or_of_the_build() {
        for triple in TARGETS {
            let text = written(triple);
            let bill = read_bill(&text);
            let names = names(&bill);
            for part in [
                "aya",
                "aya-ebpf",
                "aya-ebpf-bindings",
                "aya-log-ebpf",
                "epguard-common",
                "epguard-core",
                "epguard-ebpf",
                "kube-client",
                "rust-core",
                "rust-std",
                "rtnetlink",
            ] {
                assert!(names.contains(part), "{triple}: no {part}");
            }
            for other in names {
                let is_foreign = [
                    "windows",
                    "security-framework",
                    "jni",
                    "wasi",
                    "core-foundation",
                ]
                .iter()
                .any(|system| other.starts_with(system));
                let is_of_the_build = other.ends_with("_derive") || other == "syn" || other == "cc";
                let is_of_tests =
                    ["proptest", "tempfile", "pulldown-cmark", "epguard-lab"].contains(&other);
                assert!(
                    !is_foreign && !is_of_the_build && !is_of_tests,
                    "{triple}: {other}"
                );
            }
        }
    }

    #[test]
    fn every_component_has_a_version_a_licence_and_a_place_in_the_graph() {
        let bill = read_bill(&written(TARGETS[0]));
        let root = format!("epguard@{VERSION}");
        assert_eq!(bill["metadata"]["component"]["bom-ref"], root);
        let mut known = BTreeSet::from([&*root]);
        for component in bill["components"].as_array().unwrap() {
            for field in ["name", "version", "bom-ref", "type"] {
                assert!(component[field].is_string(), "{component}");
            }
            assert!(component["licenses"][0]["expression"].is_string());
            known.insert(component["bom-ref"].as_str().unwrap());
        }
        let mut reached = BTreeSet::new();
        for dependency in bill["dependencies"].as_array().unwrap() {
            assert!(
                known.contains(dependency["ref"].as_str().unwrap()),
                "{dependency}"
            );
            for on in dependency["dependsOn"].as_array().unwrap() {
                assert!(known.contains(on.as_str().unwrap()), "{dependency}");
                reached.insert(on.as_str().unwrap());
            }
        }
        let unreached: Vec<&&str> = known.difference(&reached).collect();
        assert_eq!(unreached, [&&*root]);
        let locked = bill["components"].as_array().unwrap().iter();
        let hashes = locked.filter(|one| one["hashes"][0]["content"].is_string());
        assert!(hashes.count() > 100);
    }

    #[test]
    fn one_commit_gives_the_same_bill_with_its_time_and_a_number_of_its_own() {
        let text = written(TARGETS[0]);
        assert_eq!(text, written(TARGETS[0]));
        let bill = read_bill(&text);
        assert_eq!(bill["metadata"]["timestamp"], "2026-01-01T00:00:00Z");
        let serial = bill["serialNumber"].as_str().unwrap();
        let uuid = serial.strip_prefix("urn:uuid:").unwrap();
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_ne!(
            bill["serialNumber"],
            read_bill(&written(TARGETS[1]))["serialNumber"]
        );
    }
}
