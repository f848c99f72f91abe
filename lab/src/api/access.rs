//! Role-based access control of the server's only user, by the roles that are bound to it.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::ApiError;
use super::protocol::Route;

/// The rules that are granted to the user. Everything is allowed until a role is bound.
#[derive(Debug, Default)]
pub struct Access(Mutex<AccessState>);

#[derive(Debug, Default)]
struct AccessState {
    granted: Option<Vec<Rule>>,
    refused: Vec<String>,
}

/// A rule of a role. `nonResourceURLs` and wildcards are refused: no test needs them.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    /// Empty: all names. A request without a name has none of them.
    #[serde(default)]
    resource_names: Vec<String>,
    /// The namespace that it holds in; none: all.
    #[serde(skip)]
    namespace: Option<String>,
}

impl Access {
    /// Grants the rules of a `ClusterRole`, or of a `Role` in its namespace, beside those of
    /// earlier calls. After the first call everything else but discovery is refused.
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
        let granted = rules.into_iter().map(|rule| Rule {
            namespace: namespace.clone(),
            ..rule
        });
        self.state().granted.get_or_insert_default().extend(granted);
        Ok(())
    }

    /// The refused requests, as `verb group/resource`.
    pub fn refused(&self) -> Vec<String> {
        self.state().refused.clone()
    }

    /// 403 unless the request is allowed.
    pub(super) fn check(&self, verb: &str, route: &Route) -> Result<(), ApiError> {
        if self.allows(verb, route) {
            return Ok(());
        }
        let group = &route.group;
        let resource = route.resource();
        let scope = match &route.namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let message = format!(
            "{resource} is forbidden: User \"lab\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
        );
        let refused = format!("{verb} {group}/{resource}");
        self.state().refused.push(refused);
        Err(ApiError::new(403, "Forbidden", message))
    }

    /// Whether the request is allowed.
    pub(super) fn allows(&self, verb: &str, route: &Route) -> bool {
        let state = self.state();
        let granted = state.granted.as_ref();
        granted.is_none_or(|granted| granted.iter().any(|rule| rule.allows(verb, route)))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, AccessState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rule {
    fn allows(&self, verb: &str, route: &Route) -> bool {
        if self.namespace.is_some() && self.namespace != route.namespace {
            return false;
        }
        let allows_name = match &route.name {
            _ if self.resource_names.is_empty() => true,
            Some(name) => self.resource_names.contains(name),
            None => false,
        };
        allows_name
            && self.api_groups.contains(&route.group)
            && self.resources.contains(&route.resource())
            && self.verbs.iter().any(|allowed| allowed == verb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_a_rule_grants_is_allowed_and_the_rest_is_recorded() {
        let access = Access::default();
        let allows = |request: &str| {
            let (verb, path) = request.split_once(' ').unwrap();
            access.check(verb, &Route::parse(path).unwrap()).is_ok()
        };
        assert!(allows("list /api/v1/secrets"), "no role is bound yet");
        let pods = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]});
        let maps = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]});
        let named = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "watch", "create"], "resourceNames": ["a"]});
        for role in [
            json!({"kind": "Role", "metadata": {"namespace": "a"}, "rules": [maps]}),
            json!({"kind": "ClusterRole", "rules": [pods, named]}),
        ] {
            access.bind(&role).unwrap();
        }
        for (request, allowed) in [
            ("list /api/v1/pods", true),
            ("list /api/v1/namespaces/b/pods", true),
            ("list /api/v1/namespaces/a/configmaps", true),
            ("get /api/v1/namespaces/b/configmaps/a", true),
            ("watch /api/v1/pods", false),
            ("list /api/v1/secrets", false),
            ("list /api/v1/namespaces/b/configmaps", false),
            ("list /api/v1/configmaps", false),
            ("get /api/v1/namespaces/a/configmaps/b", false),
            ("watch /api/v1/namespaces/a/configmaps", false),
            ("create /api/v1/namespaces/a/configmaps", false),
        ] {
            assert_eq!(allows(request), allowed, "{request}");
        }
        assert_eq!(access.refused()[..2], ["watch /pods", "list /secrets"]);
        let unknown = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "nonResourceURLs": ["/a"]});
        access
            .bind(&json!({"kind": "ClusterRole", "rules": [unknown]}))
            .unwrap_err();
    }
}
