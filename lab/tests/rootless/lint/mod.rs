//! `epguard lint`: as a process against an API server (the lists, the rights that it needs, the
//! exit code), over the recordings of a real cluster, and over `cases`, the lists of clusters whose
//! oddities are meant. No root.

use super::fleet::world::{World, beside, compare, golden};
use epguard::shared::args::ClusterArgs;
use epguard::shared::output::Output;
use epguard_client::lint::{self, LintArgs, LintReport, ListedObjects, Unlisted, UnlistedPods};
use epguard_core::facts::Object;
use epguard_lab::api::Kind;
use epguard_lab::replay::recording::Listed as Objects;
use epguard_lab::replay::recording::{Recording, What};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// A cluster with a Service, whose endpoints a test adds.
struct Cluster(World);

impl Cluster {
    fn new() -> Self {
        let world = World::empty();
        let service = json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"clusterIP": "10.96.0.1", "selector": {"app": "web"}, "ports": [{"port": 80}]}});
        world.store.apply(service).unwrap();
        Self(world)
    }

    /// A pod, listed in a slice of its own.
    fn endpoint(&self, name: &str, ip: &str, phase: &str) {
        let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
            "status": {"phase": phase, "podIPs": [{"ip": ip}]}});
        let pod = self.0.store.apply(pod).unwrap();
        let slice = json!({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4",
            "metadata": {"name": format!("web-{name}"), "namespace": "shop", "labels": {
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
            "endpoints": [{"addresses": [ip], "targetRef": {"kind": "Pod", "namespace": "shop", "name": name,
                "uid": pod["metadata"]["uid"]}}], "ports": [{"port": 8080}]});
        self.0.store.apply(slice).unwrap();
    }

    fn flags(&self) -> ClusterArgs {
        ClusterArgs {
            kubeconfig: Some(self.0.kubeconfig.to_path_buf()),
            ..ClusterArgs::default()
        }
    }

    async fn look(&self, namespace: Option<&str>) -> LintReport {
        lint::collect(&self.flags(), &args(namespace, Duration::ZERO))
            .await
            .unwrap()
    }

    async fn exit(&self, namespace: Option<&str>) -> ExitCode {
        let args = args(namespace, Duration::from_millis(1));
        lint::run(&self.flags(), Output::Table, &args).await
    }
}

fn args(namespace: Option<&str>, confirm_after: Duration) -> LintArgs {
    LintArgs {
        namespace: namespace.map(str::to_owned),
        all_namespaces: namespace.is_none(),
        confirm_after,
        strict: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_codes_of_no_finding_findings_and_failure_differ() {
    let cluster = Cluster::new();
    cluster.endpoint("good", "10.1.1.1", "Running");
    assert_eq!(cluster.exit(None).await, ExitCode::SUCCESS);
    cluster.endpoint("gone", "10.1.1.2", "Succeeded");
    assert_eq!(cluster.exit(None).await, ExitCode::from(1));
    assert_eq!(cluster.exit(Some("other")).await, ExitCode::SUCCESS);
    cluster.0.server.faults(|faults| faults.outage = true);
    assert_eq!(cluster.exit(None).await, ExitCode::from(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn warnings_alone_exit_with_0_unless_strict() {
    let cluster = Cluster::new();
    cluster.endpoint("gone", "10.1.1.2", "Succeeded");
    let mut slice_now = cluster.0.store.list(Kind::EndpointSlice).remove(0);
    slice_now["endpoints"][0]["conditions"] = json!({"ready": false});
    cluster.0.store.apply(slice_now).unwrap();
    let report = cluster.look(None).await;
    assert!(
        report.to_text().ends_with("0 errors, 1 warning"),
        "{}",
        report.to_text()
    );
    let Value::Object(document) = json!(report) else {
        panic!("{report:?}")
    };
    assert_eq!(
        document.keys().collect::<Vec<_>>(),
        ["findings", "pods", "slices", "unchecked"]
    );
    let mut finding = document["findings"][0].clone();
    let said = ["what", "fix"].map(|words| finding.as_object_mut().unwrap().remove(words));
    assert!(
        said.iter()
            .all(|words| words.as_ref().is_some_and(Value::is_string)),
        "{said:?}"
    );
    let object = json!({"kind": "EndpointSlice", "namespace": "shop", "name": "web-gone"});
    let writer = "endpointslice-controller.k8s.io";
    let expected = json!({"object": object, "controller": writer, "address": "10.1.1.2", "problem": "terminal-pod",
        "severity": "warning"});
    assert_eq!(finding, expected);
    assert_eq!(cluster.exit(None).await, ExitCode::SUCCESS);
    let strict = LintArgs {
        strict: true,
        ..args(None, Duration::from_millis(1))
    };
    let code = lint::run(&cluster.flags(), Output::Table, &strict).await;
    assert_eq!(code, ExitCode::from(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_findings_of_both_reads_are_reported() {
    let cluster = Cluster::new();
    cluster.endpoint("gone", "10.1.1.2", "Succeeded");
    let flags = cluster.flags();
    let look =
        tokio::spawn(
            async move { lint::collect(&flags, &args(None, Duration::from_secs(5))).await },
        );
    // The first pass is over when Nodes were listed.
    while !cluster
        .0
        .server
        .api
        .audit
        .requests()
        .iter()
        .any(|request| request.path.ends_with("/nodes"))
    {
        assert!(!look.is_finished(), "it looked once only");
        tokio::task::yield_now().await;
    }
    cluster.endpoint("gone", "10.1.1.2", "Running");
    assert_eq!(look.await.unwrap().unwrap().findings, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_list_is_reported_or_is_an_error_with_the_remedy() {
    let cluster = Cluster::new();
    cluster.endpoint("gone", "10.1.1.2", "Succeeded");
    cluster
        .0
        .server
        .faults(|faults| _ = faults.forbidden.insert(Kind::Node));
    let report = cluster.look(None).await;
    assert_eq!(report.findings.len(), 1);
    let nodes = "nodes: may not list them, so which addresses are in their ranges, or are a node's, is unknown";
    assert_eq!(report.unchecked, [nodes]);
    cluster
        .0
        .server
        .faults(|faults| _ = faults.forbidden.insert(Kind::Pod));
    let report = cluster.look(None).await;
    assert_eq!(report.findings, []);
    assert_eq!(
        report.unchecked,
        [
            "pods: may not list them, so whether a pod exists, and which pod has an address, is unknown; with rights in \
             one namespace pass -n NAMESPACE",
            nodes,
            "1 endpoint of Service shop/web, controller endpointslice-controller.k8s.io: the pods that are meant were not \
             listed",
        ]
    );
    cluster
        .0
        .server
        .faults(|faults| _ = faults.forbidden.insert(Kind::EndpointSlice));
    let error = lint::collect(&cluster.flags(), &args(None, Duration::ZERO)).await;
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.starts_with("API server http"), "{error}");
    assert!(
        error.contains("cannot list endpointslices: forbidden ("),
        "{error}"
    );
    assert!(
        error.ends_with(
            "grant the account the verb list on endpointslices, or pass -n NAMESPACE to check only one"
        ),
        "{error}"
    );
}

/// The contents of each collection at a time.
fn listed(recording: &Recording, at: Duration) -> ListedObjects {
    let mut objects = Objects::default();
    for (_, what) in recording
        .instants
        .iter()
        .take_while(|(then, _)| *then <= at)
    {
        if let What::Api(event) = what {
            objects.apply(event);
        }
    }
    ListedObjects {
        slices: parsed(&objects, Kind::EndpointSlice),
        services: parsed(&objects, Kind::Service),
        pods: parsed(&objects, Kind::Pod),
        nodes: parsed(&objects, Kind::Node),
        unlisted: Unlisted::default(),
    }
}

fn parsed<O: Object>(objects: &Objects, kind: Kind) -> Vec<O> {
    objects
        .of(kind)
        .map(|object| O::parse(object.to_string().as_bytes()).unwrap())
        .collect()
}

#[test]
fn every_recording_is_described_as_it_was_at_each_chosen_time() {
    golden("lint/traces.txt", |name, ms| {
        let recording = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("traces")
            .join(name);
        let ms = ms.strip_suffix(" ms").unwrap().parse().unwrap();
        let listed = listed(
            &Recording::read(&recording).unwrap(),
            Duration::from_millis(ms),
        );
        lint::check(&listed, None).to_text()
    });
}

/// Every object of a list, as `kubectl get -o json` prints it.
fn items(case: &Path) -> Vec<Value> {
    let list: Value = serde_json::from_str(&std::fs::read_to_string(case).unwrap()).unwrap();
    list["items"].as_array().unwrap().clone()
}

fn of_kind<O: Object>(items: &[Value]) -> Vec<O> {
    let of_kind = items.iter().filter(|item| item["kind"] == O::KIND);
    of_kind
        .map(|item| O::parse(item.to_string().as_bytes()).unwrap())
        .collect()
}

/// What an account with rights in this namespace alone can list.
fn with_rights_in(namespace: &str, all: &ListedObjects) -> ListedObjects {
    let mut less = all.clone();
    less.slices
        .retain(|slice| &*slice.facts.name.namespace == namespace);
    less.services
        .retain(|service| &*service.name.namespace == namespace);
    less.pods.retain(|pod| &*pod.name.namespace == namespace);
    less.nodes.clear();
    less.unlisted = Unlisted {
        pods: UnlistedPods::OutsideOf(namespace.to_owned()),
        services: true,
        nodes: true,
        ..Unlisted::default()
    };
    less
}

fn cases() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(beside("lint/cases")).unwrap();
    let mut cases: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

#[test]
fn each_case_is_described_word_for_word_with_all_rights_and_with_few() {
    let mut text = String::new();
    for case in cases() {
        let items = items(&case);
        let listed = ListedObjects {
            slices: of_kind(&items),
            services: of_kind(&items),
            pods: of_kind(&items),
            nodes: of_kind(&items),
            unlisted: Unlisted::default(),
        };
        let name = case.file_stem().unwrap().to_string_lossy();
        let _ = writeln!(
            text,
            "== {name}\n{}\n",
            lint::check(&listed, None).to_text()
        );
        let namespace = listed.slices[0].facts.name.namespace.to_string();
        let less = lint::check(&with_rights_in(&namespace, &listed), Some(&namespace));
        let _ = writeln!(
            text,
            "== {name}, with rights in namespace {namespace}\n{}\n",
            less.to_text()
        );
    }
    compare(&beside("lint/cases.txt"), &text);
}

/// The pods of a namespace that may not be listed are unknown: the endpoint of the activator's pod
/// is right.
#[tokio::test(flavor = "multi_thread")]
async fn with_rights_in_one_namespace_a_pod_of_another_is_not_said_to_be_gone() {
    let world = World::empty();
    let case = beside("lint/cases/scale-from-zero.json");
    for item in items(&case) {
        world.store.apply(item).unwrap();
    }
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["list"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]}]);
    let role = json!({"kind": "Role", "metadata": {"name": "reader", "namespace": "shop"}, "rules": rules});
    world.server.api.access.bind(&role).unwrap();
    let report = Cluster(world).look(Some("shop")).await;
    let expected = std::fs::read_to_string(beside("lint/cases.txt")).unwrap();
    assert!(expected.contains(&report.to_text()), "{}", report.to_text());
    assert!(!report.fails(false), "{}", report.to_text());
}
