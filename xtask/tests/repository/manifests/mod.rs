//! The Helm chart in `deploy/chart` and the files for kubectl that are rendered from it, checked
//! without a cluster.

mod agent;
mod alerts;
mod chart;
mod clusters;
mod contradictions;
mod dashboard;
mod helm_test;
mod releases;
mod samples;
mod schema;
mod values;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// `deploy/`.
fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// A file below `deploy/`.
fn text(file: &str) -> String {
    fs::read_to_string(deploy().join(file)).unwrap()
}

/// Every document of a text, in its order. Panics if Kubernetes 1.36 does not know all fields of an
/// object.
fn objects(text: &str) -> Vec<Value> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    objects.iter().for_each(schema::check);
    objects
}

/// The only object of this kind and name.
fn object(objects: &[Value], kind: &str, name: &str) -> Value {
    let found: Vec<&Value> = objects
        .iter()
        .filter(|object| object["kind"] == kind && object["metadata"]["name"] == name)
        .collect();
    assert_eq!(found.len(), 1, "{kind} {name}");
    found[0].clone()
}

/// Compares a text with a file below `deploy/`; `EPGUARD_WRITE_GOLDEN=1` writes it anew.
fn expect(file: &str, expected: &str) {
    if std::env::var_os("EPGUARD_WRITE_GOLDEN").is_some() {
        fs::write(deploy().join(file), expected).unwrap();
    }
    assert!(
        text(file) == expected,
        "deploy/{file} is not up to date: EPGUARD_WRITE_GOLDEN=1 writes it anew"
    );
}
