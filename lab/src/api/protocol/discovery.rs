//! Discovery: the documents that kubectl reads before it requests objects.

use std::collections::BTreeMap;

use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::reply::{self, Body};
use crate::api::{ApiError, Kind};

const OPENAPI_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Answers paths that name no resource.
pub(super) fn answer(path: &str) -> Result<Response<Body>, ApiError> {
    let path = path.trim_end_matches('/');
    if path == "/openapi/v2" {
        // An empty document without any schema: clients then have nothing to validate against.
        return Ok(reply::bytes(StatusCode::OK, OPENAPI_PROTOBUF, "".into()));
    }
    let document = documents().remove(path).ok_or_else(ApiError::unknown_path)?;
    Ok(reply::json(StatusCode::OK, &document))
}

/// All documents by their paths.
fn documents() -> BTreeMap<String, Value> {
    let groups: Vec<Value> = Kind::groups().map(api_group).collect();
    let validations = versions()
        .map(|(_, path)| (path[1..].to_owned(), json!({"serverRelativeURL": format!("/openapi/v3{path}")})));
    let validations: Value = validations.collect::<serde_json::Map<_, _>>().into();
    let mut documents = BTreeMap::from([
        ("/version".to_owned(), json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0+epguard-lab"})),
        (
            "/api".to_owned(),
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        ),
        ("/apis".to_owned(), json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})),
        ("/openapi/v3".to_owned(), json!({"paths": validations})),
    ]);
    documents.extend(Kind::groups().map(|group| (format!("/apis/{group}"), api_group(group))));
    for (version, path) in versions() {
        documents.insert(format!("/openapi/v3{path}"), field_validation(&version));
        documents.insert(path, resources(&version));
    }
    documents
}

/// Each group and version that is served, and its path.
fn versions() -> impl Iterator<Item = (String, String)> {
    let groups = Kind::groups().map(|group| (format!("{group}/v1"), format!("/apis/{group}/v1")));
    [("v1".to_owned(), "/api/v1".to_owned())].into_iter().chain(groups)
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
    let paths: Value = paths.collect::<serde_json::Map<_, _>>().into();
    json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "unversioned"}, "paths": paths})
}

fn resources(version: &str) -> Value {
    let kinds = Kind::ALL.iter().filter(|kind| kind.api_version() == version);
    let resources = kinds.map(|kind| {
        json!({
            "name": kind.plural(), "singularName": kind.name().to_lowercase(), "kind": kind.name(),
            "namespaced": kind.namespaced(), "shortNames": kind.short_names(),
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        })
    });
    let resources: Vec<Value> = resources.collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources})
}
