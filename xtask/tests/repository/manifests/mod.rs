//! The manifests in `deploy/`, checked without a cluster: the files, the output of kubectl, the alerts.

mod alerts;
mod base;
mod overlays;
mod schema;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// `deploy/`.
fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// Every document of a file below `deploy/`, in its order.
fn documents(file: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&fs::read_to_string(deploy().join(file)).unwrap()).unwrap()
}
