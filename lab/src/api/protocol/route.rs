//! Paths of resources.

use crate::api::{ApiError, Kind, ObjectRef};

/// What a path names: a collection, an object or its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) kind: Kind,
    /// None: all namespaces, or a cluster-scoped kind.
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    /// True for `/status`.
    pub(super) status: bool,
}

impl Route {
    /// Reads a path; none if it names no resource served here.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match segments.as_slice() {
            ["api", "v1", rest @ ..] => ("", rest),
            ["apis", group, "v1", rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, plural, rest) = match rest {
            ["namespaces", namespace, plural, rest @ ..] if *plural != "status" => {
                (Some(*namespace), *plural, rest)
            }
            [plural, rest @ ..] => (None, *plural, rest),
            [] => return None,
        };
        let kind = Kind::by_plural(group, plural).filter(|kind| namespace.is_none() || kind.namespaced())?;
        let (name, status) = match rest {
            [] => (None, false),
            [name] => (Some(*name), false),
            [name, "status"] if kind.has_status() => (Some(*name), true),
            _ => return None,
        };
        if name.is_some() && kind.namespaced() && namespace.is_none() {
            return None;
        }
        Some(Self { kind, namespace: namespace.map(Into::into), name: name.map(Into::into), status })
    }

    /// The object named, or that of a body to be created here.
    pub(super) fn target(&self, name_in_body: Option<&str>) -> Result<ObjectRef, ApiError> {
        let name = self.name.as_deref().or(name_in_body);
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| self.kind.unnamed())?;
        let namespace = self.namespace.as_deref().unwrap_or_default();
        Ok(ObjectRef::new(self.kind, namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_collections_objects_and_status() {
        let shown = |path: &str| {
            Route::parse(path).map(|r| {
                let [namespace, name] = [r.namespace, r.name].map(|part| part.unwrap_or_else(|| "-".into()));
                format!("{} {namespace} {name} {}", r.kind, r.status)
            })
        };
        for (path, expected) in [
            ("/api/v1/pods", Some("Pod - - false")),
            ("/api/v1/namespaces/a/pods", Some("Pod a - false")),
            ("/api/v1/namespaces/a/pods/p", Some("Pod a p false")),
            ("/api/v1/namespaces/a/pods/p/status", Some("Pod a p true")),
            ("/api/v1/namespaces/a", Some("Namespace - a false")),
            ("/api/v1/namespaces/a/status", Some("Namespace - a true")),
            ("/api/v1/nodes/n/status", Some("Node - n true")),
            ("/apis/discovery.k8s.io/v1/endpointslices", Some("EndpointSlice - - false")),
            ("/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/e/", Some("EndpointSlice a e false")),
            ("/api/v1/pods/p", None),
            ("/api/v1/namespaces/a/nodes", None),
            ("/api/v1/endpointslices", None),
            ("/api/v1/namespaces/a/pods/p/log", None),
            ("/api/v1", None),
            ("", None),
        ] {
            assert_eq!(shown(path).as_deref(), expected, "{path}");
        }
    }
}
