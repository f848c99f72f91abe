//! Paths of resources.

use crate::api::{ApiError, Kind, ObjectRef};

/// What a path names, whether or not this server serves it: a collection, an object, or a subresource of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::api) struct Route {
    pub(in crate::api) group: String,
    /// None: all namespaces, or a cluster-scoped resource.
    pub(in crate::api) namespace: Option<String>,
    plural: String,
    /// None for collections, and for what is created.
    pub(in crate::api) name: Option<String>,
    /// `status`, `exec`, `log`.
    pub(in crate::api) subresource: Option<String>,
}

impl Route {
    /// Reads a path; none if it names no resource.
    pub(in crate::api) fn parse(path: &str) -> Option<Self> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match segments.as_slice() {
            ["api", "v1", rest @ ..] => ("", rest),
            ["apis", group, "v1", rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, plural, ..] if *plural != "status" => (Some(*namespace), &rest[2..]),
            rest => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
            _ => return None,
        };
        let owned = |part: Option<&str>| part.map(str::to_owned);
        Some(Self {
            group: group.into(),
            namespace: owned(namespace),
            plural: plural.into(),
            name: owned(name),
            subresource: owned(subresource),
        })
    }

    /// The kind; none if this server does not serve the path.
    pub(super) fn kind(&self) -> Option<Kind> {
        let kind = Kind::by_plural(&self.group, &self.plural)?;
        let is_in_scope = match (&self.namespace, &self.name) {
            (Some(_), _) => kind.namespaced(),
            (None, Some(_)) => !kind.namespaced(),
            (None, None) => true,
        };
        let is_served = match self.subresource.as_deref() {
            None => true,
            Some("status") => kind.has_status(),
            Some("exec" | "log") => kind == Kind::Pod,
            Some(_) => false,
        };
        (is_in_scope && is_served).then_some(kind)
    }

    /// The resource as roles name it, with its subresource: `pods/status`.
    pub(in crate::api) fn resource(&self) -> String {
        let Self { plural, subresource, .. } = self;
        subresource.as_ref().map_or_else(|| plural.clone(), |subresource| format!("{plural}/{subresource}"))
    }

    pub(super) fn is_status(&self) -> bool {
        self.subresource.as_deref() == Some("status")
    }

    /// The object of this kind that is named, or that of a body to be created here.
    pub(super) fn target(&self, kind: Kind, name_in_body: Option<&str>) -> Result<ObjectRef, ApiError> {
        let name = self.name.as_deref().or(name_in_body).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| kind.unnamed())?;
        Ok(ObjectRef::new(kind, self.namespace.as_deref().unwrap_or_default(), name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_collections_objects_and_subresources() {
        let shown = |path: &str| {
            let route = Route::parse(path)?;
            let kind = route.kind().map_or("-".into(), |kind| kind.to_string());
            let resource = route.resource();
            let [namespace, name] = [route.namespace, route.name].map(|part| part.unwrap_or("-".into()));
            Some(format!("{kind} {}/{resource} {namespace} {name}", route.group))
        };
        for (path, expected) in [
            ("/api/v1/pods", Some("Pod /pods - -")),
            ("/api/v1/namespaces/a/pods", Some("Pod /pods a -")),
            ("/api/v1/namespaces/a/pods/p", Some("Pod /pods a p")),
            ("/api/v1/namespaces/a/pods/p/status", Some("Pod /pods/status a p")),
            ("/api/v1/namespaces/a/pods/p/log", Some("Pod /pods/log a p")),
            ("/api/v1/namespaces/a", Some("Namespace /namespaces - a")),
            ("/api/v1/namespaces/a/status", Some("Namespace /namespaces/status - a")),
            ("/api/v1/nodes/n/status", Some("Node /nodes/status - n")),
            (
                "/apis/discovery.k8s.io/v1/endpointslices",
                Some("EndpointSlice discovery.k8s.io/endpointslices - -"),
            ),
            ("/apis/events.k8s.io/v1/namespaces/a/events/e/", Some("Event events.k8s.io/events a e")),
            ("/api/v1/pods/p", Some("- /pods - p")),
            ("/api/v1/namespaces/a/nodes", Some("- /nodes a -")),
            ("/api/v1/endpointslices", Some("- /endpointslices - -")),
            ("/api/v1/secrets", Some("- /secrets - -")),
            ("/api/v1", None),
            ("/apis/discovery.k8s.io/v1", None),
            ("/version", None),
            ("", None),
        ] {
            assert_eq!(shown(path).as_deref(), expected, "{path}");
        }
    }
}
