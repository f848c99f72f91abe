//! The resource kinds the server knows, and the name of one object.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde_json::Value;
use strum::{IntoStaticStr, VariantArray};

use super::ApiError;
use crate::object::non_empty;

/// A resource kind served by the embedded API server: those that the agent reads or writes, and
/// those of its manifests (`kubectl rollout undo` reads the revisions of a `DaemonSet`), those that
/// `kubectl epguard check` makes, and those that Helm and `e2e/run` ask for.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Deserialize,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "lowercase", suffix = "s")]
#[allow(missing_docs, reason = "they are Kubernetes' own names")]
pub enum Kind {
    Pod,
    Service,
    Node,
    Namespace,
    ConfigMap,
    Event,
    ServiceAccount,
    Secret,
    EndpointSlice,
    DaemonSet,
    ControllerRevision,
    Job,
    #[strum(serialize = "networkpolicie")]
    NetworkPolicy,
    Role,
    RoleBinding,
    ClusterRole,
    ClusterRoleBinding,
    #[strum(serialize = "priorityclasse")]
    PriorityClass,
}

impl Kind {
    /// Every kind, in discovery order.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The resource's name in URLs.
    pub fn plural(self) -> &'static str {
        self.into()
    }

    /// The `apiVersion` field of an object.
    pub fn api_version(self) -> &'static str {
        match self {
            Kind::EndpointSlice => "discovery.k8s.io/v1",
            Kind::DaemonSet | Kind::ControllerRevision => "apps/v1",
            Kind::Job => "batch/v1",
            Kind::NetworkPolicy => "networking.k8s.io/v1",
            Kind::Role | Kind::RoleBinding | Kind::ClusterRole | Kind::ClusterRoleBinding => {
                "rbac.authorization.k8s.io/v1"
            }
            Kind::PriorityClass => "scheduling.k8s.io/v1",
            _ => "v1",
        }
    }

    /// False for kinds whose objects belong to no namespace.
    pub fn namespaced(self) -> bool {
        !matches!(
            self,
            Kind::Node
                | Kind::Namespace
                | Kind::ClusterRole
                | Kind::ClusterRoleBinding
                | Kind::PriorityClass
        )
    }

    /// The error for an object without a name.
    pub(super) fn unnamed(self) -> ApiError {
        ApiError::invalid(format!(
            "{self}: metadata.name: Required value: name or generateName is required"
        ))
    }

    pub(super) fn by_plural(group: &str, plural: &str) -> Option<Self> {
        // The same objects under two groups; discovery shows the older one.
        let version = match (group, plural) {
            ("", _) | ("events.k8s.io", "events") => "v1",
            _ => &format!("{group}/v1"),
        };
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.api_version() == version && kind.plural() == plural)
    }
}

/// The `kind` field of an object.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl FromStr for Kind {
    type Err = ApiError;

    /// Reads a `kind` ("Pod") or a plural ("pods").
    fn from_str(text: &str) -> Result<Self, ApiError> {
        let found = Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.to_string() == text || kind.plural() == text);
        found.ok_or_else(|| {
            let message = format!("kind {text:?} is not served here; known: {:?}", Self::ALL);
            ApiError::bad_request(message)
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
    /// Names an object; the namespace is dropped for cluster-scoped kinds, and `default` where it
    /// is empty for others.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let namespace = if namespace.is_empty() {
            "default"
        } else {
            namespace
        };
        let namespace = if kind.namespaced() { namespace } else { "" };
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Names a Pod.
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self::new(Kind::Pod, namespace, name)
    }

    /// Reads kind, namespace and name of an object.
    pub fn of(object: &Value) -> Result<Self, ApiError> {
        let kind: Kind = object["kind"]
            .as_str()
            .ok_or_else(|| ApiError::bad_request("object has no kind"))?
            .parse()?;
        let meta = &object["metadata"];
        let name = non_empty(&meta["name"]).ok_or_else(|| kind.unnamed())?;
        Ok(Self::new(
            kind,
            meta["namespace"].as_str().unwrap_or_default(),
            name,
        ))
    }

    /// The error for an object that does not exist.
    pub(super) fn missing(&self) -> ApiError {
        ApiError::new(404, "NotFound", format!("{self} not found"))
    }

    /// The key objects are stored and ordered by, as in etcd.
    pub(super) fn key(&self) -> String {
        let Self {
            namespace, name, ..
        } = self;
        if namespace.is_empty() {
            name.clone()
        } else {
            format!("{namespace}/{name}")
        }
    }
}

/// As Kubernetes' messages name it: `pods "web-1"`.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind.plural(), self.name)
    }
}
