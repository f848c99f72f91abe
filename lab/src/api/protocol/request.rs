//! A request's path and parameters.

use std::str::FromStr;

use hyper::Method;

use crate::api::{ApiError, Kind, ObjectRef};

/// What a path names, whether or not this server serves it: a collection, an object, or a
/// subresource of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::api) struct Route {
    pub(in crate::api) group: String,
    /// None: all namespaces, or a cluster-scoped resource.
    pub(in crate::api) namespace: Option<String>,
    plural: String,
    /// None for collections, and for what is created.
    pub(in crate::api) name: Option<String>,
    /// `exec`, `log`.
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
            ["namespaces", namespace, _, ..] => (Some(*namespace), &rest[2..]),
            rest => (None, rest),
        };
        let [plural, named @ ..] = rest else {
            return None;
        };
        if named.len() > 2 {
            return None;
        }
        Some(Self {
            group: group.into(),
            namespace: namespace.map(str::to_owned),
            plural: (*plural).into(),
            name: named.first().map(|name| (*name).to_owned()),
            subresource: named.get(1).map(|part| (*part).to_owned()),
        })
    }

    /// A resource of all namespaces and names, or of those that are not empty.
    pub(super) fn of(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Self {
            group: group.into(),
            namespace: given(namespace),
            plural: plural.into(),
            name: given(name),
            subresource: given(subresource),
        }
    }

    /// The kind; none if this server does not serve the path.
    pub(super) fn kind(&self) -> Option<Kind> {
        let kind = Kind::by_plural(&self.group, &self.plural)?;
        let is_collection_of_all = self.namespace.is_none() && self.name.is_none();
        let is_in_scope = is_collection_of_all || self.namespace.is_some() == kind.namespaced();
        let is_served = match self.subresource.as_deref() {
            None => true,
            Some(part) => kind == Kind::Pod && ["exec", "log"].contains(&part),
        };
        (is_in_scope && is_served).then_some(kind)
    }

    /// The resource as roles name it, with its subresource: `pods/exec`.
    pub(in crate::api) fn resource(&self) -> String {
        let Self {
            plural,
            subresource,
            ..
        } = self;
        subresource.as_ref().map_or_else(
            || plural.clone(),
            |subresource| format!("{plural}/{subresource}"),
        )
    }

    /// The object of this kind that is named, or that of a body to be created here.
    pub(super) fn target(
        &self,
        kind: Kind,
        name_in_body: Option<&str>,
    ) -> Result<ObjectRef, ApiError> {
        let name = self
            .name
            .as_deref()
            .or(name_in_body)
            .filter(|name| !name.is_empty())
            .ok_or_else(|| kind.unnamed())?;
        Ok(ObjectRef::new(
            kind,
            self.namespace.as_deref().unwrap_or_default(),
            name,
        ))
    }
}

/// The parameters of a request (`ListOptions`, `DeleteOptions` and the like in one). An empty one
/// is as none.
#[derive(Clone, Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        Self(
            parameters(query)
                .filter(|(_, value)| !value.is_empty())
                .collect(),
        )
    }

    /// The value of a parameter.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(own, _)| own == key)
            .map(|(_, value)| &**value)
    }

    /// The same as a number.
    pub(super) fn number<T: FromStr>(&self, key: &str) -> Result<Option<T>, ApiError> {
        self.text(key)
            .map(|value| value.parse().map_err(|_| unsupported(key, value)))
            .transpose()
    }

    /// Whether a parameter is true.
    pub(super) fn flag(&self, key: &str) -> bool {
        matches!(self.text(key), Some("true" | "1"))
    }

    /// The asked resourceVersion, 0 if any will do, and whether the answer may be newer.
    pub(super) fn version(&self) -> Result<(u64, bool), ApiError> {
        let version = self.number("resourceVersion")?.unwrap_or_default();
        match self.text("resourceVersionMatch") {
            None => Ok((version, false)),
            Some("NotOlderThan") => Ok((version, true)),
            Some(other) => Err(unsupported("resourceVersionMatch", other)),
        }
    }
}

fn unsupported(key: &str, value: &str) -> ApiError {
    ApiError::bad_request(format!("{key}: Invalid value: {value:?}"))
}

/// The verb of a request, as roles and Kubernetes' own audit log call it; of a path without a
/// resource the HTTP method.
pub(super) fn verb(method: &Method, route: Option<&Route>, is_watch: bool) -> String {
    let is_named = route.map(|route| route.name.is_some());
    let verb = match (method.as_str(), is_named) {
        (other, None) => other,
        ("GET", _) if is_watch => "watch",
        ("GET", Some(false)) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("DELETE", Some(false)) => "deletecollection",
        (other, _) => other,
    };
    verb.to_lowercase()
}

/// Names and values of a query, decoded.
pub(super) fn parameters(query: &str) -> impl Iterator<Item = (String, String)> {
    query.split('&').map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    })
}

/// Text of which some octets are written as `%20`, and blanks as `+`.
fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    let mut parts = text.split('%');
    let mut octets = Vec::from(parts.next().unwrap_or_default());
    for part in parts {
        match part
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
        {
            Some(octet) => octets.extend([&[octet], &part.as_bytes()[2..]].concat()),
            None => octets.extend(format!("%{part}").bytes()),
        }
    }
    String::from_utf8_lossy(&octets).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_verb_and_a_collection_an_object_or_a_subresource() {
        let shown = |method: &Method, path: &str, is_watch| {
            let route = Route::parse(path);
            let verb = verb(method, route.as_ref(), is_watch);
            let Some(route) = route else { return verb };
            let kind = route.kind().map_or("-".into(), |kind| kind.to_string());
            let resource = route.resource();
            let [namespace, name] =
                [route.namespace, route.name].map(|part| part.unwrap_or("-".into()));
            format!(
                "{verb} {kind} {}/{resource} {namespace} {name}",
                route.group
            )
        };
        for (method, path, is_watch, expected) in [
            (Method::GET, "/api/v1/pods", false, "list Pod /pods - -"),
            (Method::GET, "/api/v1/pods", true, "watch Pod /pods - -"),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods",
                false,
                "list Pod /pods a -",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/p",
                false,
                "get Pod /pods a p",
            ),
            (
                Method::PATCH,
                "/api/v1/namespaces/a/pods/p",
                false,
                "patch Pod /pods a p",
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/a/pods/p/status",
                false,
                "update - /pods/status a p",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/p/log",
                false,
                "get Pod /pods/log a p",
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a",
                false,
                "delete Namespace /namespaces - a",
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods",
                false,
                "deletecollection Pod /pods a -",
            ),
            (
                Method::GET,
                "/apis/discovery.k8s.io/v1/endpointslices",
                false,
                "list EndpointSlice discovery.k8s.io/endpointslices - -",
            ),
            (
                Method::POST,
                "/apis/events.k8s.io/v1/namespaces/a/events/",
                false,
                "create Event events.k8s.io/events a -",
            ),
            (Method::GET, "/api/v1/pods/p", false, "get - /pods - p"),
            (
                Method::GET,
                "/api/v1/namespaces/a/nodes",
                false,
                "list - /nodes a -",
            ),
            (
                Method::GET,
                "/api/v1/endpointslices",
                false,
                "list - /endpointslices - -",
            ),
            (Method::GET, "/api/v1/leases", false, "list - /leases - -"),
            (Method::GET, "/api/v1", false, "get"),
            (Method::GET, "/apis/discovery.k8s.io/v1", false, "get"),
            (Method::GET, "/version", false, "get"),
            (Method::GET, "", false, "get"),
        ] {
            assert_eq!(shown(&method, path, is_watch), expected, "{path}");
        }
    }

    #[test]
    fn the_parameters_of_a_query_are_decoded_and_a_wrong_code_is_text() {
        for (query, name, value) in [
            (
                "command=cat+%2Fproc%2F1%2Fstat",
                "command",
                "cat /proc/1/stat",
            ),
            ("label%53elector=a%3D%c3%bc,b", "labelSelector", "a=ü,b"),
            ("watch", "watch", ""),
            ("a=b=c", "a", "b=c"),
            ("a=100%25%", "a", "100%%"),
            ("a=%zz%2", "a", "%zz%2"),
            ("a=%ü", "a", "%ü"),
        ] {
            assert_eq!(
                parameters(query).collect::<Vec<_>>(),
                [(name.into(), value.into())]
            );
        }
        assert_eq!(parameters("a=1&b=2").count(), 2);
    }
}
