//! The words of each finding of lint, and what its advice rests on.

use super::lint::{
    ENDPOINTSLICE, MIRRORING, addr, backend, by, by_controller, cluster, find_problems,
    selector_less,
};
use super::*;
use epguard_client::lint::{LintProblem, ListedObjects, Severity};
use std::collections::BTreeSet;
use strum::VariantArray as _;

/// A cluster with one problem, and its finding: the fact and the advice, word for word.
struct Found {
    listed: ListedObjects,
    severity: Severity,
    what: &'static str,
    fix: &'static str,
}

/// A list of `web-1`, whose one endpoint means this pod.
fn naming(managed_by: Option<&str>, pod: &Pod, pods: Vec<Pod>) -> ListedObjects {
    cluster(selector_less(), pods, by(managed_by, pod))
}

fn kept(pod: &Pod, pods: Vec<Pod>) -> ListedObjects {
    cluster(web(), pods, by_controller(&[pod]))
}

fn finished_pods() -> Vec<Found> {
    let a = backend("a", 10);
    let b = pod("other", "b", "b", &[addr(10)]);
    let ended = super::dead(&a);
    let deleted = Pod {
        deleting: true,
        ..ended.clone()
    };
    let unproven = super::terminal(&a);
    let of_a_check = Pod {
        labels: [
            ("app", "web"),
            ("app.kubernetes.io/managed-by", "epguard-check"),
        ]
        .into_iter()
        .collect(),
        ..ended.clone()
    };
    let clean = "made by `kubectl epguard check`: if none runs now, `kubectl epguard check --clean` removes it";
    vec![
        Found {
            listed: kept(&of_a_check, vec![of_a_check.clone()]),
            severity: Severity::Error,
            what: "pod shop/a has finished and released the address, still listed as ready",
            fix: clean,
        },
        Found {
            listed: naming(Some("epguard-check"), &a, vec![ended.clone()]),
            severity: Severity::Error,
            what: "pod shop/a has finished and released the address, still listed as ready",
            fix: clean,
        },
        Found {
            listed: kept(&a, vec![ended.clone(), b]),
            severity: Severity::Error,
            what: "pod shop/a has finished and released the address, still listed as ready; the address belongs to \
                   other/b now",
            fix: "delete the finished pod (ttlSecondsAfterFinished of a Job does it), once its log and exit code are not \
                  needed: kubectl -n shop delete pods --field-selector \
                  metadata.name=a,status.phase!=Running,status.phase!=Pending,status.phase!=Unknown",
        },
        Found {
            listed: kept(&a, vec![unproven]),
            severity: Severity::Error,
            what: "pod shop/a has finished, still listed as ready",
            fix: "the end of the pod is not proven, so it may still run: see whether its node works: kubectl get node \
                  node-a",
        },
        Found {
            listed: kept(&a, vec![deleted]),
            severity: Severity::Error,
            what: "pod shop/a has finished and released the address, still listed as ready",
            fix: "the pod is being deleted; what that waits for: kubectl -n shop get pod a -o \
                  jsonpath='{.metadata.finalizers}'",
        },
        Found {
            listed: naming(Some("me.example"), &a, vec![ended.clone()]),
            severity: Severity::Error,
            what: "pod shop/a has finished and released the address, still listed as ready",
            fix: "only me.example, which writes this slice, can correct it: see its log about shop/web",
        },
        Found {
            listed: naming(Some(ENDPOINTSLICE), &a, vec![ended]),
            severity: Severity::Error,
            what: "has no selector, so endpointslice-controller.k8s.io does not update its slices (web-1): they stay \
                   as they are when pods end or come; wrong already: 10.244.1.10 (pod shop/a has finished and \
                   released the address, still listed as ready)",
            fix: "keep them, as the endpoints that are right may be in service; who changed the Service, and when: \
                  kubectl -n shop get service web -o yaml --show-managed-fields",
        },
    ]
}

fn endpoints_of_other_pods() -> Vec<Found> {
    let a = backend("a", 10);
    let next = Pod {
        uid: uid("next"),
        ..a.clone()
    };
    let moved = backend("a", 11);
    let stranger = pod("other", "b", "b", &[addr(10)]);
    let mut without_uid = naming(None, &a, vec![a.clone()]);
    without_uid.slices[0].facts.endpoints[0].target = None;
    let mut without_target = without_uid.clone();
    without_target.slices[0].targets = vec![None];
    vec![
        Found {
            listed: naming(None, &a, vec![next]),
            severity: Severity::Warning,
            what: "means UID {a}, but pod shop/a is UID {next}",
            fix: "only its writer can correct it; who that is: kubectl -n shop get endpointslice web-1 -o yaml \
                  --show-managed-fields",
        },
        Found {
            listed: kept(&a, vec![]),
            severity: Severity::Error,
            what: "names pod shop/a ({a}), which this cluster does not have",
            fix: "endpointslice-controller.k8s.io corrects it once it works: see whether kube-controller-manager runs, \
                  and its log about shop/web",
        },
        Found {
            listed: without_uid,
            severity: Severity::Warning,
            what: "names pod shop/a without a UID, which has the address now; after a replacement it is unclear which \
                   pod is meant",
            fix: "nothing has to change: epguard passes its packets, and only its writer can add the pod's UID",
        },
        Found {
            listed: without_target,
            severity: Severity::Warning,
            what: "belongs to shop/a, but the endpoint names no pod",
            fix: "nothing has to change: epguard passes its packets, and only its writer can name the pod, with its \
                  UID",
        },
        Found {
            listed: naming(Some(MIRRORING), &a, vec![moved.clone(), stranger]),
            severity: Severity::Error,
            what: "belongs to other/b; pod shop/a, which is meant, has 10.244.1.11",
            fix: "only the writer of the Endpoints object shop/web, of which this is a copy, can correct it; who that \
                  is: kubectl -n shop get endpoints web -o yaml --show-managed-fields",
        },
        Found {
            listed: kept(&a, vec![moved]),
            severity: Severity::Error,
            what: "no pod shows it; pod shop/a, which is meant, has 10.244.1.11",
            fix: "endpointslice-controller.k8s.io corrects it once it works: see whether kube-controller-manager runs, \
                  and its log about shop/web",
        },
    ]
}

fn services_and_addresses() -> Vec<Found> {
    let a = backend("a", 10);
    let b = backend("b", 11);
    let on_host = Pod {
        host_network: true,
        ..backend("h", 12)
    };
    let same = backend("b", 10);
    let ending = Pod {
        deleting: true,
        ..same.clone()
    };
    let far = |pod: Pod| Pod {
        node: Some("node-b".into()),
        ..pod
    };
    let stray = far(backend("stray", 13));
    let mut at_node = cluster(web(), vec![a.clone()], vec![]);
    at_node.nodes[1].addresses = vec![addr(10)];
    vec![
        Found {
            listed: cluster(web(), vec![a.clone()], by(Some("me.example"), &a)),
            severity: Severity::Warning,
            what: "has a selector, by which endpointslice-controller.k8s.io keeps its slices, and 1 slice of others \
                   (web-1): the selector does not tell which pods are its own",
            fix: "nothing has to change if these controllers are meant to add endpoints, as those of several clusters \
                  and of scale from zero do; who writes such a slice: kubectl -n shop get endpointslice web-1 -o yaml \
                  --show-managed-fields",
        },
        Found {
            listed: cluster(
                web(),
                vec![a.clone(), on_host.clone()],
                by_controller(&[&a, &on_host]),
            ),
            severity: Severity::Warning,
            what: "lists pod shop/h on the host network, whose addresses are their nodes' and are never denied, beside \
                   pod shop/a with their own",
            fix: "nothing has to change: packets to the pods of the host network pass, as without epguard",
        },
        Found {
            listed: cluster(web(), vec![a.clone(), same.clone()], vec![]),
            severity: Severity::Error,
            what: "pods of node node-a have the same address: 10.244.1.10 (shop/a and shop/b)",
            fix: "which of these pods has the address only the node knows: compare what its CNI has given out with its \
                  pods: kubectl get pods -A -o wide --field-selector spec.nodeName=node-a",
        },
        Found {
            listed: ListedObjects {
                nodes: vec![],
                ..cluster(web(), vec![a.clone(), far(same)], vec![])
            },
            severity: Severity::Error,
            what: "nodes node-a, node-b give their pods the same addresses: 10.244.1.10 (shop/a and shop/b)",
            fix: "new pods get such addresses again, until the nodes' ranges differ: compare those in their CNI \
                  configurations with kubectl get nodes -o custom-columns=NAME:.metadata.name,RANGES:.spec.podCIDRs",
        },
        Found {
            listed: cluster(web(), vec![a.clone(), ending], vec![]),
            severity: Severity::Warning,
            what: "has 10.244.1.10, which shop/b shows, too, and is terminating",
            fix: "nothing has to change: it ends with the terminating pod; what that waits for: kubectl -n shop \
                  describe pod b",
        },
        Found {
            listed: at_node,
            severity: Severity::Warning,
            what: "shop/a has 10.244.1.10 of Node node-b",
            fix: "epguard denies no packet to such an address; which of them gets it is up to the node: compare the \
                  ranges of the IPAM with those of Services and nodes",
        },
        Found {
            listed: cluster(web(), vec![a, b, stray], vec![]),
            severity: Severity::Warning,
            what: "its pods have addresses outside of its range 10.244.2.0/24: 10.244.1.13 (shop/stray)",
            fix: "compare the range in the node's CNI configuration with its spec.podCIDRs: pods of other nodes keep \
                  to theirs",
        },
    ]
}

#[test]
fn each_finding_states_its_fact_and_its_advice_word_for_word() {
    let mut seen = BTreeSet::new();
    let all = [
        finished_pods(),
        endpoints_of_other_pods(),
        services_and_addresses(),
    ];
    for expected in all.into_iter().flatten() {
        let findings = find_problems(&expected.listed, None);
        let [finding] = &findings[..] else {
            panic!(
                "one finding for one cause: {}: {findings:#?}",
                expected.what
            )
        };
        let what = expected.what.replace("{a}", &uid("a").to_string());
        let what = what.replace("{next}", &uid("next").to_string());
        assert_eq!(finding.what, what);
        assert_eq!(finding.fix, expected.fix, "{what}");
        assert_eq!(finding.severity, expected.severity, "{what}");
        assert!(!finding.controller.is_empty(), "{what}");
        seen.insert(finding.problem);
    }
    let all: BTreeSet<LintProblem> = LintProblem::VARIANTS.iter().copied().collect();
    assert_eq!(seen, all);
}
