//! Discovery: the documents that kubectl reads before it requests objects.

use hyper::{Response, StatusCode};
use serde_json::{Map, Value, json};

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
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        "/apis" => {
            let groups: Value = groups().map(api_group).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        "/openapi/v3" => {
            let validation = |version| {
                let root = root(version);
                (root[1..].to_owned(), json!({"serverRelativeURL": format!("/openapi/v3{root}")}))
            };
            json!({"paths": VERSIONS.into_iter().map(validation).collect::<Map<_, _>>()})
        }
        _ => {
            let version = |at: &str| VERSIONS.into_iter().find(|version| root(version) == at);
            let group = path.strip_prefix("/apis/").and_then(|name| groups().find(|group| *group == name));
            let group = group.map(api_group).or_else(|| version(path).map(resources));
            let validation = || version(path.strip_prefix("/openapi/v3")?).map(field_validation);
            group.or_else(validation).ok_or_else(ApiError::unknown_path)?
        }
    };
    Ok(reply::json(StatusCode::OK, &document))
}

/// Each `apiVersion` that is served, in the order in which clients see it.
const VERSIONS: [&str; 4] = ["v1", "discovery.k8s.io/v1", "apps/v1", "rbac.authorization.k8s.io/v1"];

/// The path of a version.
fn root(version: &str) -> String {
    if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") }
}

fn groups() -> impl Iterator<Item = &'static str> {
    VERSIONS.into_iter().filter_map(|version| Some(version.split_once('/')?.0))
}

fn api_group(group: &str) -> Value {
    let version = json!({"groupVersion": format!("{group}/v1"), "version": "v1"});
    json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": group,
        "versions": [version], "preferredVersion": version,
    })
}

/// The smallest document that shows kubectl 1.27 and newer that the server itself validates what they apply.
fn field_validation(version: &str) -> Value {
    let kinds = Kind::ALL.iter().filter(|kind| kind.api_version() == version);
    let paths = kinds.map(|kind| {
        let parameters =
            json!([{"name": "fieldValidation", "in": "query"}, {"name": "dryRun", "in": "query"}]);
        let named = json!({"group": kind.group(), "version": "v1", "kind": kind.name()});
        let patch =
            json!({"parameters": parameters, "x-kubernetes-group-version-kind": named, "responses": {}});
        (format!("/{}/{{name}}", kind.plural()), json!({"patch": patch}))
    });
    let paths: Value = paths.collect::<Map<_, _>>().into();
    json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "unversioned"}, "paths": paths})
}

fn resources(version: &str) -> Value {
    let kinds = Kind::ALL.iter().filter(|kind| kind.api_version() == version);
    let resources = kinds.map(|kind| {
        json!({
            "name": kind.plural(), "singularName": kind.name().to_lowercase(), "kind": kind.name(),
            "namespaced": kind.namespaced(),
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        })
    });
    let resources: Vec<Value> = resources.collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources})
}
