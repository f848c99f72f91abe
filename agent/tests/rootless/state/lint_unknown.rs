//! What lint says of objects that it could not list, of other clusters' pods, and of many pods.

use super::lint::{addr, backend, by_controller, cluster, found, selector_less, slice};
use super::*;
use epguard_client::lint::{ListedObjects, UnlistedPods, check};

#[test]
fn what_was_not_listed_is_not_said_to_be_absent() {
    let a = backend("a", 10);
    let guest = pod("other", "b", "b", &[addr(12)]);
    let moved = backend("a", 11);
    let mut listed = cluster(web(), vec![moved], by_controller(&[&a, &guest]));
    listed.unlisted.pods = UnlistedPods::OutsideOf("shop".to_owned());
    let report = check(&listed, None);
    let found: Vec<&str> = report.findings.iter().map(|one| &*one.what).collect();
    assert_eq!(
        found,
        ["no pod that was listed shows it; pod shop/a, which is meant, has 10.244.1.11"]
    );
    assert_eq!(
        report.unchecked,
        [
            "pods of other namespaces: may not list them, so whether they exist, and which addresses they have, is \
             unknown",
            "1 endpoint of Service shop/web, controller endpointslice-controller.k8s.io: the pods that are meant were \
             not listed",
        ]
    );
    listed.unlisted.pods = UnlistedPods::None;
    listed.unlisted.unreadable_pods = vec![ObjectName::new("other", "b")];
    let report = check(&listed, None);
    assert!(
        report
            .findings
            .iter()
            .all(|one| !one.what.contains("does not have")),
        "{report:#?}"
    );
}

#[test]
fn a_pod_of_another_cluster_is_not_said_to_be_gone() {
    let a = backend("a", 10);
    let theirs = Pod {
        uid: uid("theirs"),
        ips: [Addr::v4([10, 50, 3, 7])].into(),
        ..backend("a", 7)
    };
    let imported = slice("imported-1", Some("karmada.example"), &[&theirs]);
    let mut without_uid = imported.clone();
    without_uid.facts.endpoints[0].target = None;
    for theirs in [imported, without_uid] {
        let report = check(
            &cluster(selector_less(), vec![a.clone()], vec![theirs]),
            None,
        );
        assert_eq!(report.findings, []);
        assert_eq!(
            report.unchecked,
            [
                "1 endpoint of Service shop/web, controller karmada.example: neither the pods nor the addresses are \
                 this cluster's, and may be another's"
            ]
        );
    }
}

#[test]
fn nodes_with_one_range_are_one_finding_however_many_pods_they_have() {
    let mut pods = Vec::new();
    for number in 1..=4 {
        for (host, last) in [(number, 2), (number + 1, 3)] {
            let node = format!("edge-{host}");
            let name = format!("cam-{number}-{last}");
            pods.push(on(&node, backend(&name, last)));
        }
    }
    let listed = ListedObjects {
        nodes: vec![],
        ..cluster(web(), pods, vec![])
    };
    let [line] = &found(&listed)[..] else {
        panic!("{:#?}", found(&listed))
    };
    assert_eq!(
        line,
        "Node edge-1 shared-range -: nodes edge-1, edge-2, edge-3 and 2 more give their pods the same addresses: \
         10.244.1.2 (shop/cam-1-2, shop/cam-2-2, shop/cam-3-2 and 1 more), 10.244.1.3 (shop/cam-1-3, shop/cam-2-3, \
         shop/cam-3-3 and 1 more)"
    );
}
