//! `EndpointSlices` with what people ask about them; [`Slice`](super::Slice) has only what decides.

use super::{Ignored, Meta, Name, Object, addr, null_is_default, parse};
use epguard_common::{Addr, Uid};
use serde::Deserialize;

/// One `EndpointSlice`, with who made it and whom it names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListedSlice {
    /// Namespace and name of the slice.
    pub name: Name,
    /// Namespace and name of the Service (label `kubernetes.io/service-name`); none for an orphan.
    pub service: Option<Name>,
    /// Label `endpointslice.kubernetes.io/managed-by`; none where nobody claims the slice.
    pub managed_by: Option<String>,
    /// Every usable address; none of an FQDN slice.
    pub endpoints: Vec<ListedEndpoint>,
}

/// One address of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEndpoint {
    /// The endpoint's IP.
    pub ip: Addr,
    /// The pod that is meant; none without a targetRef of kind Pod.
    pub target: Option<PodRef>,
    /// `conditions.ready`; where a slice says nothing, it is (discovery/v1 `EndpointConditions`).
    pub ready: bool,
}

/// A targetRef of kind Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// Namespace (the slice's where it says none) and name.
    pub name: Name,
    /// None where it is empty.
    pub uid: Option<Uid>,
}

impl Object for ListedSlice {
    const KIND: &'static str = "EndpointSlice";
    const PATH: &'static str = "/apis/discovery.k8s.io/v1/endpointslices";

    fn read(json: &[u8], _: &mut Ignored) -> anyhow::Result<Self> {
        let raw: RawSlice = parse(json)?;
        let meta = raw.metadata;
        anyhow::ensure!(!meta.name.is_empty(), "EndpointSlice without a name");
        let label = |key| meta.labels.get(key).filter(|value| !value.is_empty()).cloned();
        let service = label("kubernetes.io/service-name").map(|service| (meta.namespace.clone(), service));
        let endpoints = raw.endpoints.iter().filter(|_| raw.address_type != "FQDN");
        Ok(Self {
            service,
            managed_by: label("endpointslice.kubernetes.io/managed-by"),
            endpoints: endpoints
                .flat_map(|endpoint| endpoint.endpoints(&meta.namespace))
                .collect(),
            name: (meta.namespace, meta.name),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSlice {
    metadata: Meta,
    #[serde(default)]
    address_type: String,
    #[serde(default, deserialize_with = "null_is_default")]
    endpoints: Vec<RawEndpoint>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawEndpoint {
    #[serde(deserialize_with = "null_is_default")]
    addresses: Vec<String>,
    target_ref: Option<TargetRef>,
    conditions: Option<Conditions>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TargetRef {
    kind: String,
    namespace: String,
    name: String,
    uid: String,
}

impl RawEndpoint {
    fn endpoints(&self, namespace: &str) -> impl Iterator<Item = ListedEndpoint> {
        let pod = self.target_ref.as_ref().filter(|target| target.kind == "Pod");
        let target = pod.map(|pod| PodRef {
            name: (pod.namespace_or(namespace), pod.name.clone()),
            uid: Uid::parse(&pod.uid),
        });
        let ready = self.conditions.as_ref().is_none_or(|c| c.ready != Some(false));
        self.addresses
            .iter()
            .filter_map(|ip| addr(ip))
            .map(move |ip| ListedEndpoint {
                ip,
                target: target.clone(),
                ready,
            })
    }
}

impl TargetRef {
    fn namespace_or(&self, default: &str) -> String {
        let named = Some(&self.namespace).filter(|namespace| !namespace.is_empty());
        named.map_or(default, String::as_str).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_slice_is_read_with_its_controller_and_whom_it_names() {
        let slice = json!({
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {
                "kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "me"}},
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.1.1.1"], "targetRef": {"kind": "Pod", "name": "a", "uid": ""}},
                {"addresses": ["10.1.1.2"], "targetRef": {"kind": "Node", "name": "n", "uid": "u"}, "conditions": {"ready": false}},
                {"addresses": ["banana"]},
            ],
        });
        let slice = ListedSlice::parse(slice.to_string().as_bytes()).unwrap();
        let pod = PodRef {
            name: ("shop".into(), "a".into()),
            uid: None,
        };
        let endpoint = |last, target, ready| ListedEndpoint {
            ip: Addr::v4([10, 1, 1, last]),
            target,
            ready,
        };
        assert_eq!(
            slice,
            ListedSlice {
                name: ("shop".into(), "web-1".into()),
                service: Some(("shop".into(), "web".into())),
                managed_by: Some("me".into()),
                endpoints: vec![endpoint(1, Some(pod), true), endpoint(2, None, false)],
            }
        );
    }

    #[test]
    fn names_are_no_addresses() {
        let slice = json!({"metadata": {"name": "db"}, "addressType": "FQDN", "endpoints": [{"addresses": ["10.1.1.1"]}]});
        let slice = ListedSlice::parse(slice.to_string().as_bytes()).unwrap();
        assert_eq!((slice.endpoints, slice.managed_by), (vec![], None));
    }
}
