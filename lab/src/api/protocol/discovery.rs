//! Discovery: the documents that kubectl reads before it requests objects.

use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::reply::{self, Body};
use crate::api::{ApiError, Kind};

const OPENAPI_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Answers paths that name no resource.
pub(super) fn answer(path: &str) -> Result<Response<Body>, ApiError> {
    let path = path.trim_end_matches('/');
    let document = match path {
        // An empty document without any schema: clients then have nothing to validate against.
        "/openapi/v2" => return Ok(reply::bytes(StatusCode::OK, OPENAPI_PROTOBUF, "".into())),
        "/version" => json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0+epguard-lab"}),
        "/api" => {
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
        }
        "/apis" => {
            let groups: Value = VERSIONS.into_iter().filter_map(api_group).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        _ => {
            let version = VERSIONS.into_iter().find(|version| root(version) == path);
            version.map(resources).ok_or_else(ApiError::unknown_path)?
        }
    };
    Ok(reply::json(StatusCode::OK, &document))
}

/// Each `apiVersion` that is served, in the order in which clients see it.
const VERSIONS: [&str; 7] = [
    "v1",
    "discovery.k8s.io/v1",
    "apps/v1",
    "batch/v1",
    "networking.k8s.io/v1",
    "rbac.authorization.k8s.io/v1",
    "scheduling.k8s.io/v1",
];

/// The path of a version.
fn root(version: &str) -> String {
    if version == "v1" {
        "/api/v1".to_owned()
    } else {
        format!("/apis/{version}")
    }
}

/// The group of a version; none for core's.
fn api_group(version: &str) -> Option<Value> {
    let (name, _) = version.split_once('/')?;
    let version = json!({"groupVersion": version, "version": "v1"});
    Some(json!({"name": name, "versions": [version], "preferredVersion": version}))
}

fn resources(version: &str) -> Value {
    let kinds = Kind::ALL
        .iter()
        .filter(|kind| kind.api_version() == version);
    let resources: Vec<Value> = kinds.map(|kind| {
        json!({
            "name": kind.plural(), "singularName": kind.to_string().to_lowercase(), "kind": kind.to_string(),
            "namespaced": kind.namespaced(), "categories": categories(*kind),
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        })
    }).collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources})
}

/// The words for several kinds that a kind is one of.
fn categories(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Pod | Kind::Service | Kind::DaemonSet | Kind::Job => &["all"],
        _ => &[],
    }
}
