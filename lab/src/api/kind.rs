//! The resource kinds the server knows, and the name of one object.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::ApiError;

/// A resource kind served by the embedded API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// core/v1
    Pod,
    /// core/v1
    Service,
    /// core/v1
    Node,
    /// core/v1
    Namespace,
    /// core/v1
    ConfigMap,
    /// core/v1
    Event,
    /// discovery.k8s.io/v1
    EndpointSlice,
}

impl Kind {
    /// Every kind, in discovery order.
    pub const ALL: [Kind; 7] = [
        Kind::Pod,
        Kind::Service,
        Kind::Node,
        Kind::Namespace,
        Kind::ConfigMap,
        Kind::Event,
        Kind::EndpointSlice,
    ];

    /// The `kind` field of an object.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Pod => "Pod",
            Kind::Service => "Service",
            Kind::Node => "Node",
            Kind::Namespace => "Namespace",
            Kind::ConfigMap => "ConfigMap",
            Kind::Event => "Event",
            Kind::EndpointSlice => "EndpointSlice",
        }
    }

    /// The resource's name in URLs.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Pod => "pods",
            Kind::Service => "services",
            Kind::Node => "nodes",
            Kind::Namespace => "namespaces",
            Kind::ConfigMap => "configmaps",
            Kind::Event => "events",
            Kind::EndpointSlice => "endpointslices",
        }
    }

    /// Short names for kubectl.
    pub(super) fn short_names(self) -> &'static [&'static str] {
        match self {
            Kind::Pod => &["po"],
            Kind::Service => &["svc"],
            Kind::Node => &["no"],
            Kind::Namespace => &["ns"],
            Kind::ConfigMap => &["cm"],
            Kind::Event => &["ev"],
            Kind::EndpointSlice => &[],
        }
    }

    /// The API group; empty for core.
    #[must_use]
    pub fn group(self) -> &'static str {
        if self == Kind::EndpointSlice {
            "discovery.k8s.io"
        } else {
            ""
        }
    }

    /// The `apiVersion` field of an object.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        if self == Kind::EndpointSlice {
            "discovery.k8s.io/v1"
        } else {
            "v1"
        }
    }

    /// False for kinds whose objects belong to no namespace.
    #[must_use]
    pub fn namespaced(self) -> bool {
        !matches!(self, Kind::Node | Kind::Namespace)
    }

    /// True where `/status` is a subresource: the main resource then ignores `status`, as the real server does.
    pub(super) fn has_status(self) -> bool {
        matches!(self, Kind::Pod | Kind::Service | Kind::Node | Kind::Namespace)
    }

    /// True where Kubernetes 1.36 keeps `metadata.generation`.
    pub(super) fn has_generation(self) -> bool {
        matches!(self, Kind::Pod | Kind::EndpointSlice)
    }

    pub(super) fn by_plural(group: &str, plural: &str) -> Option<Self> {
        // The same objects under two groups; discovery shows the older one.
        let group = if group == "events.k8s.io" && plural == "events" {
            ""
        } else {
            group
        };
        Self::ALL
            .into_iter()
            .find(|k| k.group() == group && k.plural() == plural)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = ApiError;

    /// Reads a `kind` ("Pod") or a plural ("pods").
    fn from_str(text: &str) -> Result<Self, ApiError> {
        Self::ALL
            .into_iter()
            .find(|k| k.name() == text || k.plural() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::name).join(", ");
                ApiError::bad_request(format!("kind {text:?} is not served here; known: {known}"))
            })
    }
}

/// Kind, namespace (empty for cluster-scoped kinds) and name of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// The object's kind.
    pub kind: Kind,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl ObjectRef {
    /// Names an object; the namespace is dropped for cluster-scoped kinds, and `default` where it is empty for others.
    #[must_use]
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let namespace = match (kind.namespaced(), namespace) {
            (false, _) => "",
            (true, "") => "default",
            (true, given) => given,
        };
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Names a Pod.
    #[must_use]
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self::new(Kind::Pod, namespace, name)
    }

    /// Reads kind, namespace and name of an object.
    pub fn of(object: &Value) -> Result<Self, ApiError> {
        let kind = object["kind"]
            .as_str()
            .ok_or_else(|| ApiError::bad_request("object has no kind"))?
            .parse()?;
        let meta = &object["metadata"];
        let name = meta["name"].as_str().filter(|n| !n.is_empty()).ok_or_else(|| {
            ApiError::invalid(format!(
                "{kind}: metadata.name: Required value: name or generateName is required"
            ))
        })?;
        Ok(Self::new(
            kind,
            meta["namespace"].as_str().unwrap_or_default(),
            name,
        ))
    }

    /// The key objects are stored and ordered by, as in etcd.
    pub(super) fn key(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key())
    }
}
