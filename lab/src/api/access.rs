//! Role-based access control of the server's only user, by the roles that are bound to it.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use hyper::Method;
use serde_json::Value;

use crate::api::ApiError;

/// The rules that are granted to the user. Everything is allowed until a role is bound. Clones share the rules.
#[derive(Clone, Debug, Default)]
pub struct Access(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    granted: Option<Vec<Granted>>,
    refused: Vec<String>,
}

/// A granted rule and the namespace that it holds in.
#[derive(Clone, Debug)]
struct Granted {
    rule: Rule,
    /// None: all namespaces.
    namespace: Option<String>,
}

/// A rule of a role. `nonResourceURLs` and wildcards are refused: no test needs them.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    /// Empty: all names. A request without a name has none of them.
    #[serde(default)]
    resource_names: Vec<String>,
}

impl Access {
    /// Grants the rules of a `ClusterRole`, or of a `Role` in its namespace, beside those of earlier calls. After the first
    /// call everything else but discovery is refused.
    pub fn bind(&self, role: &Value) -> Result<()> {
        let rules: Vec<Rule> =
            serde_json::from_value(role["rules"].clone()).context("not the rules of a role")?;
        let namespace = match role["kind"].as_str() {
            Some("ClusterRole") => None,
            Some("Role") => {
                let namespace = role["metadata"]["namespace"].as_str();
                Some(namespace.context("a Role without a namespace")?.to_owned())
            }
            other => bail!("{other:?} is no kind of role: ClusterRole or Role"),
        };
        let granted = rules.into_iter().map(|rule| Granted { rule, namespace: namespace.clone() });
        self.state().granted.get_or_insert_default().extend(granted);
        Ok(())
    }

    /// The refused requests, as `verb group/resource`.
    pub fn refused(&self) -> Vec<String> {
        self.state().refused.clone()
    }

    /// 403 unless the request is allowed.
    pub(crate) fn check(&self, method: &Method, path: &str, watch: bool) -> Result<(), ApiError> {
        let mut state = self.state();
        let (Some(granted), Some(asked)) = (&state.granted, Asked::parse(method, path, watch)) else {
            return Ok(());
        };
        if granted.iter().any(|granted| asked.is_allowed_by(granted)) {
            return Ok(());
        }
        let Asked { verb, group, resource, namespace, .. } = &asked;
        let scope = match namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let message = format!(
            "{resource} is forbidden: User \"lab\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
        );
        let refused = format!("{verb} {group}/{resource}");
        state.refused.push(refused);
        Err(ApiError::new(403, "Forbidden", message))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The resource of a request, whether or not this server serves it.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    verb: String,
    group: String,
    /// With its subresource: `pods/status`.
    resource: String,
    /// None: all namespaces, or a cluster-scoped resource.
    namespace: Option<String>,
    /// None for lists, and for what is created.
    name: Option<String>,
}

impl Asked {
    /// `None` for paths without a resource: discovery, which every user may read.
    fn parse(method: &Method, path: &str, watch: bool) -> Option<Self> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, inside, ..] if !matches!(*inside, "status" | "finalize") => {
                (Some((*namespace).into()), &rest[2..])
            }
            rest => (None, rest),
        };
        let (plural, name, sub) = match rest {
            [] => return None,
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(name), None),
            [plural, name, sub, ..] => (plural, Some(name), Some(sub)),
        };
        Some(Self {
            verb: verb(method, name.is_some(), watch),
            group: group.into(),
            resource: sub.map_or((*plural).into(), |sub| format!("{plural}/{sub}")),
            namespace,
            name: name.map(|name| (*name).into()),
        })
    }

    fn is_allowed_by(&self, Granted { rule, namespace }: &Granted) -> bool {
        let there = namespace.is_none() || *namespace == self.namespace;
        there
            && rule.api_groups.contains(&self.group)
            && rule.resources.contains(&self.resource)
            && rule.verbs.contains(&self.verb)
            && (rule.resource_names.is_empty()
                || self.name.as_ref().is_some_and(|name| rule.resource_names.contains(name)))
    }
}

/// The verb of a request, as roles and Kubernetes' own audit log call it.
pub(super) fn verb(method: &Method, is_named: bool, watch: bool) -> String {
    let verb = match (method.as_str(), is_named) {
        ("GET" | "HEAD", _) if watch => "watch",
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        (other, _) => other,
    };
    verb.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_is_a_verb_on_a_resource_of_a_group() {
        let shown = |method: &Method, path: &str, watch| {
            Asked::parse(method, path, watch)
                .map(|asked| format!("{} {}/{}", asked.verb, asked.group, asked.resource))
        };
        for (method, path, watch, expected) in [
            (Method::GET, "/api/v1/pods", false, Some("list /pods")),
            (Method::GET, "/api/v1/pods", true, Some("watch /pods")),
            (Method::GET, "/api/v1/namespaces/a/pods/p", false, Some("get /pods")),
            (Method::PUT, "/api/v1/namespaces/a/pods/p/status", false, Some("update /pods/status")),
            (Method::GET, "/api/v1/namespaces/a", false, Some("get /namespaces")),
            (
                Method::POST,
                "/apis/events.k8s.io/v1/namespaces/a/events",
                false,
                Some("create events.k8s.io/events"),
            ),
            (Method::DELETE, "/api/v1/namespaces/a/pods", false, Some("deletecollection /pods")),
            (Method::GET, "/apis/discovery.k8s.io/v1", false, None),
            (Method::GET, "/version", false, None),
        ] {
            assert_eq!(shown(&method, path, watch).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn a_request_that_no_rule_allows_is_forbidden_and_recorded() {
        let access = Access::default();
        let check = |path, watch| access.check(&Method::GET, path, watch);
        assert_eq!(check("/api/v1/secrets", false), Ok(()));
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
        access.bind(&json!({"kind": "ClusterRole", "rules": rules})).unwrap();
        assert_eq!(check("/api/v1/pods", false), Ok(()));
        assert_eq!(check("/api", false), Ok(()));
        assert_eq!(check("/api/v1/pods", true).unwrap_err().code, 403);
        assert_eq!(check("/api/v1/secrets", false).unwrap_err().code, 403);
        assert_eq!(access.refused(), ["watch /pods", "list /secrets"]);
    }

    #[test]
    fn a_role_holds_in_its_namespace_and_beside_a_cluster_role() {
        let access = Access::default();
        let rules = |resource| json!([{"apiGroups": [""], "resources": [resource], "verbs": ["list"]}]);
        let role = json!({"kind": "Role", "metadata": {"namespace": "a"}, "rules": rules("configmaps")});
        access.bind(&role).unwrap();
        access.bind(&json!({"kind": "ClusterRole", "rules": rules("pods")})).unwrap();
        for (path, allowed) in [
            ("/api/v1/namespaces/a/configmaps", true),
            ("/api/v1/namespaces/b/configmaps", false),
            ("/api/v1/configmaps", false),
            ("/api/v1/namespaces/b/pods", true),
            ("/api/v1/pods", true),
        ] {
            assert_eq!(access.check(&Method::GET, path, false).is_ok(), allowed, "{path}");
        }
    }

    #[test]
    fn a_rule_with_unsupported_fields_is_refused() {
        let named = json!({"kind": "ClusterRole", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "nonResourceURLs": ["/a"]}]});
        assert!(Access::default().bind(&named).is_err());
    }

    #[test]
    fn a_rule_with_names_allows_no_other_object_and_no_list() {
        let access = Access::default();
        let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create"], "resourceNames": ["a"]});
        access.bind(&json!({"kind": "ClusterRole", "rules": [rule]})).unwrap();
        let check = |method: &Method, path| access.check(method, path, false).is_ok();
        assert!(check(&Method::GET, "/api/v1/namespaces/n/configmaps/a"));
        assert!(!check(&Method::GET, "/api/v1/namespaces/n/configmaps/b"));
        assert!(!check(&Method::GET, "/api/v1/namespaces/n/configmaps"));
        assert!(!check(&Method::POST, "/api/v1/namespaces/n/configmaps"));
    }
}
