//! Random clusters, listed with random rights: no advice of lint can hurt, and fewer rights find
//! nothing that all rights do not find.

use super::lint::{ENDPOINTSLICE, MIRRORING};
use super::*;
use epguard_client::lint::{LintFinding, ListedObjects, UnlistedPods, check};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// The names of the pods by their numbers. The fourth is a later one of the first's name, and the
/// last ones are gone.
const NAMES: [(&str, &str); 7] = [
    ("shop", "a"),
    ("shop", "b"),
    ("other", "a"),
    ("shop", "a"),
    ("other", "c"),
    ("shop", "gone"),
    ("other", "gone"),
];

/// Of node-a's range, of node-b's, a node's own, and of no range of this cluster.
const ADDRESSES: [[u8; 4]; 6] = [
    [10, 244, 1, 10],
    [10, 244, 1, 11],
    [10, 244, 2, 10],
    [192, 168, 250, 11],
    [192, 168, 250, 12],
    [10, 50, 3, 7],
];

const WRITERS: [Option<&str>; 4] = [
    Some(ENDPOINTSLICE),
    Some(MIRRORING),
    Some("other.example"),
    None,
];

prop_compose! {
    /// A pod; the number makes its UID unique.
    fn pods(number: usize)(
        address in select(&ADDRESSES[..]),
        host in select(&["node-a", "node-b", "node-c"][..]),
        uid_state in select(&[UidState::Live, UidState::Live, UidState::Retired, UidState::Dead][..]),
        deleting in any::<bool>(),
        mirror in proptest::bool::weighted(0.1),
        static_ip in proptest::bool::weighted(0.1),
        host_network in proptest::bool::weighted(0.1),
    ) -> Pod {
        let (namespace, name) = NAMES[number];
        Pod {
            uid: uid(&format!("pod-{number}")),
            uid_state,
            deleting,
            mirror,
            static_ip,
            host_network,
            ..on(host, pod(namespace, name, "web", &[Addr::v4(address)]))
        }
    }
}

prop_compose! {
    fn slice_endpoints()(
        address in select(&ADDRESSES[..]),
        number in 0..NAMES.len(),
        has_uid in proptest::bool::weighted(0.8),
        has_target in proptest::bool::weighted(0.8),
        ready in any::<bool>(),
    ) -> (SliceEndpoint, Option<ObjectName>) {
        let (namespace, name) = NAMES[number];
        let endpoint = SliceEndpoint {
            ip: Addr::v4(address),
            target: (has_uid && has_target).then(|| uid(&format!("pod-{number}"))),
            ready,
        };
        (endpoint, has_target.then(|| ObjectName::new(namespace, name)))
    }
}

prop_compose! {
    fn slices(number: usize)(
        managed_by in select(&WRITERS[..]),
        of_web in any::<bool>(),
        listed in vec(slice_endpoints(), 1..4),
    ) -> ListedSlice {
        let name = if of_web { "web" } else { "lone" };
        let (endpoints, targets): (Vec<SliceEndpoint>, Vec<Option<ObjectName>>) = listed.into_iter().unzip();
        ListedSlice {
            facts: Slice {
                service: Some(ObjectName::new("shop", name)),
                endpoints,
                foreign: managed_by != Some(ENDPOINTSLICE),
                ports: vec![],
                ..slice(&format!("slice-{number}"), &[])
            },
            managed_by: managed_by.map(str::to_owned),
            targets,
        }
    }
}

prop_compose! {
    fn clusters()(
        pods in [pods(0), pods(1), pods(2), pods(3), pods(4)],
        slices in [slices(0), slices(1), slices(2)],
        has_selector in any::<bool>(),
        has_ranges in any::<bool>(),
        is_virtual in any::<bool>(),
        is_replaced in any::<bool>(),
    ) -> ListedObjects {
        let mut pods = Vec::from(pods);
        if is_replaced {
            pods.reverse();
        }
        let web = web();
        let lone = Service {
            name: ObjectName::new("shop", "lone"),
            selector: None,
            vips: vec![],
            ..web.clone()
        };
        let web = Service {
            selector: web.selector.clone().filter(|_| has_selector),
            ..web
        };
        let mut nodes = vec![node("node-a", 1), node("node-b", 2)];
        nodes[1].virtual_kubelet = is_virtual;
        if !has_ranges {
            for node in &mut nodes {
                node.pod_cidrs.clear();
            }
        }
        ListedObjects {
            slices: slices.into(),
            services: vec![web, lone],
            pods: unique(pods),
            nodes,
            ..ListedObjects::default()
        }
    }
}

/// Two pods of the API never have one name.
fn unique(pods: impl IntoIterator<Item = Pod>) -> Vec<Pod> {
    let mut kept: Vec<Pod> = Vec::new();
    for pod in pods {
        if !kept.iter().any(|other| other.name == pod.name) {
            kept.push(pod);
        }
    }
    kept
}

fn with_rights_in_shop(listed: &ListedObjects) -> ListedObjects {
    let mut less = listed.clone();
    less.pods.retain(|pod| &*pod.name.namespace == "shop");
    less.unlisted.pods = UnlistedPods::OutsideOf("shop".to_owned());
    less.unlisted.services = true;
    less
}

fn without_pods(listed: &ListedObjects) -> ListedObjects {
    let mut less = listed.clone();
    less.pods.clear();
    less.unlisted.pods = UnlistedPods::All;
    less
}

fn without_nodes(listed: &ListedObjects) -> ListedObjects {
    let mut less = with_rights_in_shop(listed);
    less.nodes.clear();
    less.unlisted.nodes = true;
    less
}

/// The commands of an advice, without `kubectl`.
fn commands(fix: &str) -> impl Iterator<Item = &str> {
    fix.split("kubectl ").skip(1)
}

/// Fails if the advice may end something that is in service: the one command that changes anything
/// deletes a pod that has finished, whose kubelet proved it, and which a controller then takes out
/// of the slice.
fn assert_harmless(finding: &LintFinding, all: &ListedObjects) {
    for words in ["remove ", "give the Service", "edit ", "patch ", "apply "] {
        assert!(!finding.fix.contains(words), "{words}: {finding:#?}");
    }
    let is_deletion = finding.fix.contains("delete ");
    let mut deletions = 0;
    for command in commands(&finding.fix) {
        let mut words = command.split(' ').filter(|word| !word.starts_with('-'));
        let verb = words.find(|word| ["get", "describe", "delete"].contains(word));
        if verb != Some("delete") {
            assert!(verb.is_some(), "{command}");
            continue;
        }
        deletions += 1;
        let rest = command.strip_prefix("-n ").unwrap();
        let (namespace, rest) = rest.split_once(' ').unwrap();
        let (_, selected) = rest.split_once("metadata.name=").unwrap();
        let (name, phases) = selected.split_once(',').unwrap();
        assert_eq!(
            phases,
            "status.phase!=Running,status.phase!=Pending,status.phase!=Unknown"
        );
        let name = ObjectName::new(namespace, name);
        let pod = all.pods.iter().find(|pod| pod.name == name).unwrap();
        assert!(pod.uid_state == UidState::Dead && !pod.mirror, "{pod:#?}");
        let mut nodes = all.nodes.iter();
        let node = nodes.find(|node| pod.node.as_deref() == Some(&*node.name));
        assert!(!node.unwrap().virtual_kubelet, "{pod:#?}");
        let mut services = all.services.iter();
        assert!(services.any(|one| one.selector.is_some() && finding.controller == ENDPOINTSLICE));
    }
    assert_eq!(is_deletion, deletions > 0, "{finding:#?}");
}

proptest! {
    #![proptest_config(crate::incremental::config())]

    #[test]
    fn no_advice_can_end_what_is_in_service_and_fewer_rights_find_nothing_else(all in clusters()) {
        let with_all = check(&all, None).findings;
        for finding in with_all.iter().chain(&check(&without_nodes(&all), None).findings) {
            assert_harmless(finding, &all);
        }
        for listed in [with_rights_in_shop(&all), without_pods(&all)] {
            for finding in check(&listed, None).findings {
                assert_harmless(&finding, &all);
                if ["Pod", "Node"].contains(&finding.object.kind) {
                    continue;
                }
                let mut others = with_all.iter();
                prop_assert!(
                    others.any(|other| other.object == finding.object && other.address == finding.address),
                    "found only with fewer rights: {finding:#?}, and with all {with_all:#?}"
                );
            }
        }
    }
}
