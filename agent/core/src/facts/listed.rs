//! `EndpointSlices` for reports; [`Slice`](super::Slice) has only the fields that decide.

use super::raw_slice::{RawAddress, RawSlice};
use super::{Ignored, Name, Object, Unreadable, shared};
use epguard_common::{Addr, Uid};

/// One `EndpointSlice`, with its controller and the pods that it names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListedSlice {
    /// Namespace and name of the slice.
    pub name: Name,
    /// Namespace and name of the Service (label `kubernetes.io/service-name`); none for an orphan.
    pub service: Option<Name>,
    /// Label `endpointslice.kubernetes.io/managed-by`; none without it.
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
    /// `conditions.ready`; true where the slice has none (discovery/v1 `EndpointConditions`).
    pub ready: bool,
}

/// A targetRef of kind Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// Namespace (the slice's where the targetRef has none) and name.
    pub name: Name,
    /// None where it is empty.
    pub uid: Option<Uid>,
}

impl Object for ListedSlice {
    const KIND: &'static str = "EndpointSlice";
    const PATH: &'static str = "/apis/discovery.k8s.io/v1/endpointslices";

    type Raw<'a> = RawSlice<'a>;

    fn from_named(raw: RawSlice<'_>, _: &mut Ignored) -> Result<Self, Unreadable> {
        let namespace = &raw.metadata.namespace;
        Ok(Self {
            service: raw.service(),
            managed_by: raw.managed_by().map(str::to_owned),
            endpoints: raw.addresses().map(|address| endpoint(&address, namespace)).collect(),
            name: raw.metadata.name(),
        })
    }
}

fn endpoint(address: &RawAddress<'_>, namespace: &str) -> ListedEndpoint {
    let target = address.pod.map(|pod| PodRef {
        name: (shared(pod.namespace_or(namespace)), (*pod.name).into()),
        uid: Uid::parse(&pod.uid),
    });
    ListedEndpoint { ip: address.ip, target, ready: address.ready }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_slice_is_read_with_its_controller_and_the_pods_that_it_names() {
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
        let pod = PodRef { name: ("shop".into(), "a".into()), uid: None };
        let endpoint = |last, target, ready| ListedEndpoint { ip: Addr::v4([10, 1, 1, last]), target, ready };
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
    fn a_slice_of_host_names_has_no_endpoints() {
        let slice = json!({"metadata": {"name": "db"}, "addressType": "FQDN", "endpoints": [{"addresses": ["10.1.1.1"]}]});
        let slice = ListedSlice::parse(slice.to_string().as_bytes()).unwrap();
        assert_eq!((slice.endpoints, slice.managed_by), (vec![], None));
    }
}
