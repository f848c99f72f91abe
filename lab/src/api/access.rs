//! Role-based access control of the server's only user, by the roles that are bound to it.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::ApiError;
use super::protocol::Route;

/// The rules that are granted to the user. Everything is allowed until a role is bound.
#[derive(Debug, Default)]
pub struct Access(Mutex<State>);

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
    pub(super) fn check(&self, verb: &str, route: &Route) -> Result<(), ApiError> {
        let mut state = self.state();
        let Some(granted) = &state.granted else { return Ok(()) };
        if granted.iter().any(|granted| granted.allows(verb, route)) {
            return Ok(());
        }
        let (group, resource) = (&route.group, route.resource());
        let scope = match &route.namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let message = format!(
            "{resource} is forbidden: User \"lab\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
        );
        state.refused.push(format!("{verb} {group}/{resource}"));
        Err(ApiError::new(403, "Forbidden", message))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Granted {
    fn allows(&self, verb: &str, route: &Route) -> bool {
        let Self { rule, namespace } = self;
        let among = |all: &[String], one: &str| all.iter().any(|own| own == one);
        (namespace.is_none() || *namespace == route.namespace)
            && among(&rule.api_groups, &route.group)
            && among(&rule.resources, &route.resource())
            && among(&rule.verbs, verb)
            && (rule.resource_names.is_empty()
                || route.name.as_ref().is_some_and(|name| rule.resource_names.contains(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(access: &Access, verb: &str, path: &str) -> bool {
        access.check(verb, &Route::parse(path).unwrap()).is_ok()
    }

    #[test]
    fn a_request_that_no_rule_allows_is_forbidden_and_recorded() {
        let access = Access::default();
        assert!(check(&access, "list", "/api/v1/secrets"));
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
        access.bind(&json!({"kind": "ClusterRole", "rules": rules})).unwrap();
        assert!(check(&access, "list", "/api/v1/pods"));
        assert!(!check(&access, "watch", "/api/v1/pods"));
        assert!(!check(&access, "list", "/api/v1/secrets"));
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
            assert_eq!(check(&access, "list", path), allowed, "{path}");
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
        let check = |verb, path| check(&access, verb, path);
        assert!(check("get", "/api/v1/namespaces/n/configmaps/a"));
        assert!(!check("get", "/api/v1/namespaces/n/configmaps/b"));
        assert!(!check("list", "/api/v1/namespaces/n/configmaps"));
        assert!(!check("create", "/api/v1/namespaces/n/configmaps"));
    }
}
