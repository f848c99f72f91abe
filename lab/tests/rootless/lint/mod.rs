//! `epguard lint`: as a process against an API server (the lists, the rights that it needs, the exit code), and over the
//! recordings of a real cluster. No root.

use epguard::commands::lint::{self, LintArgs, Listed, Report, findings};
use epguard::shared::output::Output;
use epguard_core::facts::Object;
use epguard_lab::api::{ApiServer, Kind, Store};
use epguard_lab::replay::recording::Listed as Objects;
use epguard_lab::replay::recording::{Recording, What};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// A cluster whose Service lists a finished pod and a good one. Its kubeconfig goes with it.
struct Cluster {
    store: Store,
    server: ApiServer,
    kubeconfig: PathBuf,
}

impl Cluster {
    fn new(name: &str) -> Self {
        let store = Store::new();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = ApiServer::start(listener, store.clone()).unwrap();
        let kubeconfig = std::env::temp_dir().join(format!("epguard-lint-{name}-{}", std::process::id()));
        std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
        store
            .apply(json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"clusterIP": "10.96.0.1", "selector": {"app": "web"}, "ports": [{"port": 80}]}}))
            .unwrap();
        Self { store, server, kubeconfig }
    }

    /// A pod, listed in a slice of its own.
    fn endpoint(&self, name: &str, ip: &str, phase: &str) -> Value {
        let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
            "status": {"phase": phase, "podIPs": [{"ip": ip}]}});
        let pod = self.store.apply(pod).unwrap();
        let slice = json!({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4",
            "metadata": {"name": format!("web-{name}"), "namespace": "shop", "labels": {
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
            "endpoints": [{"addresses": [ip], "targetRef": {"kind": "Pod", "namespace": "shop", "name": name,
                "uid": pod["metadata"]["uid"]}}], "ports": [{"port": 8080}]});
        self.store.apply(slice).unwrap();
        pod
    }

    fn args(&self, namespace: Option<&str>, confirm_after: Duration) -> LintArgs {
        LintArgs {
            kubeconfig: Some(self.kubeconfig.clone()),
            context: None,
            namespace: namespace.map(str::to_owned),
            output: Output::Table,
            confirm_after,
            strict: false,
        }
    }

    async fn look(&self, namespace: Option<&str>) -> Report {
        lint::collect(self.args(namespace, Duration::ZERO)).await.unwrap()
    }

    async fn exit_strictly(&self) -> ExitCode {
        let args = LintArgs { strict: true, ..self.args(None, Duration::from_millis(1)) };
        lint::run(args).await
    }

    async fn exit(&self, namespace: Option<&str>) -> ExitCode {
        lint::run(self.args(namespace, Duration::from_millis(1))).await
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_pod_that_is_still_listed_is_found_over_the_api_in_every_form() {
    let cluster = Cluster::new("found");
    cluster.endpoint("good", "10.1.1.1", "Running");
    cluster.endpoint("gone", "10.1.1.2", "Succeeded");
    let report = cluster.look(None).await;
    assert_eq!(
        report.text(),
        "EndpointSlice shop/web-gone, controller: endpointslice-controller.k8s.io\n  \
         error   terminal-pod 10.1.1.2: pod shop/gone has finished, still listed as ready\n          \
         fix: delete the finished pod: kubectl -n shop delete pod gone; for Jobs set ttlSecondsAfterFinished, or \
         keep their pods out of the Service's selector\n\n\
         2 EndpointSlices and 2 pods: 1 error, 0 warnings"
    );
    let yaml = Output::Yaml.text(&report, Report::text).unwrap();
    assert_eq!(
        yaml,
        r#"slices: 2
pods: 2
findings:
- object:
    kind: EndpointSlice
    namespace: shop
    name: web-gone
  controller: endpointslice-controller.k8s.io
  address: "10.1.1.2"
  problem: terminal-pod
  severity: error
  what: pod shop/gone has finished, still listed as ready
  fix: "delete the finished pod: kubectl -n shop delete pod gone; for Jobs set ttlSecondsAfterFinished, or keep their pods out of the Service's selector"
unchecked: []"#
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_codes_of_no_finding_findings_and_failure_differ() {
    let cluster = Cluster::new("exit");
    cluster.endpoint("good", "10.1.1.1", "Running");
    assert_eq!(cluster.exit(None).await, ExitCode::SUCCESS);
    cluster.endpoint("gone", "10.1.1.2", "Succeeded");
    assert_eq!(cluster.exit(None).await, ExitCode::from(1));
    assert_eq!(cluster.exit(Some("other")).await, ExitCode::SUCCESS);
    cluster.server.faults(|faults| faults.outage = true);
    assert_eq!(cluster.exit(None).await, ExitCode::from(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn warnings_alone_exit_with_0_unless_strict() {
    let cluster = Cluster::new("warning");
    cluster.endpoint("gone", "10.1.1.2", "Succeeded");
    let mut slice_now = cluster.store.list(Kind::EndpointSlice).remove(0);
    slice_now["endpoints"][0]["conditions"] = json!({"ready": false});
    cluster.store.apply(slice_now).unwrap();
    let report = cluster.look(None).await;
    assert!(report.text().ends_with("0 errors, 1 warning"), "{}", report.text());
    assert_eq!(cluster.exit(None).await, ExitCode::SUCCESS);
    assert_eq!(cluster.exit_strictly().await, ExitCode::from(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_findings_of_both_reads_are_reported() {
    let cluster = Cluster::new("again");
    cluster.endpoint("gone", "10.1.1.2", "Succeeded");
    let look = tokio::spawn(lint::collect(cluster.args(None, Duration::from_secs(5))));
    // The first pass is over when Nodes were listed.
    while !cluster.server.api.audit.requests().iter().any(|request| request.path.ends_with("/nodes")) {
        assert!(!look.is_finished(), "it looked once only");
        tokio::task::yield_now().await;
    }
    cluster.endpoint("gone", "10.1.1.2", "Running");
    assert_eq!(look.await.unwrap().unwrap().findings, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_list_is_reported_or_is_an_error_with_the_remedy() {
    let cluster = Cluster::new("forbidden");
    cluster.endpoint("gone", "10.1.1.2", "Succeeded");
    cluster.server.faults(|faults| _ = faults.forbidden.insert(Kind::Node));
    let report = cluster.look(None).await;
    assert_eq!(report.findings.len(), 1);
    assert_eq!(
        report.unchecked,
        ["ranges: may not list nodes, so addresses outside of them, or in them without a pod, are not found"]
    );
    cluster.server.faults(|faults| _ = faults.forbidden.insert(Kind::EndpointSlice));
    let error = lint::collect(cluster.args(None, Duration::ZERO)).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot list endpointslices: forbidden ("), "{error}");
    assert!(
        error.ends_with(
            "grant the account the verb list on endpointslices, or pass -n NAMESPACE to check only one"
        ),
        "{error}"
    );
}

/// The contents of each collection at a time.
fn listed(recording: &Recording, at: Duration) -> Listed {
    let mut objects = Objects::default();
    for (_, what) in recording.instants.iter().take_while(|(then, _)| *then <= at) {
        if let What::Api(event) = what {
            objects.apply(event);
        }
    }
    Listed {
        slices: parsed(&objects, Kind::EndpointSlice),
        services: parsed(&objects, Kind::Service),
        pods: parsed(&objects, Kind::Pod),
        nodes: parsed(&objects, Kind::Node),
    }
}

fn parsed<O: Object>(objects: &Objects, kind: Kind) -> Vec<O> {
    objects.of(kind).map(|object| O::parse(object.to_string().as_bytes()).unwrap()).collect()
}

#[test]
fn every_recording_is_described_as_it_was_at_each_chosen_time() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = here.join("tests/rootless/lint/traces.txt");
    let expected = std::fs::read_to_string(&golden).unwrap();
    let mut found = String::new();
    for header in expected.lines().filter_map(|line| line.strip_prefix("== ")) {
        let (name, ms) = header.strip_suffix(" ms").unwrap().split_once(" at ").unwrap();
        let recording = Recording::read(&here.join("traces").join(name)).unwrap();
        let listed = listed(&recording, Duration::from_millis(ms.parse().unwrap()));
        let report = Report {
            slices: listed.slices.len(),
            pods: listed.pods.len(),
            findings: findings(&listed, None),
            unchecked: vec![],
        };
        let section = format!("== {header}\n{}\n\n", report.text());
        let writing = std::env::var_os("EPGUARD_WRITE_GOLDEN").is_some();
        assert!(writing || expected.contains(&section), "not expected:\n{section}");
        found.push_str(&section);
    }
    if std::env::var_os("EPGUARD_WRITE_GOLDEN").is_some() {
        std::fs::write(&golden, &found).unwrap();
    }
    assert_eq!(found, expected);
}

#[test]
fn every_recording_is_in_the_golden_file() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let expected = std::fs::read_to_string(here.join("tests/rootless/lint/traces.txt")).unwrap();
    for entry in std::fs::read_dir(here.join("traces")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || expected.contains(&format!("== {name} at ")), "{name}");
    }
}
