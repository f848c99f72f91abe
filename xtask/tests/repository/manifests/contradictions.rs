//! Values that do not fit together are refused with the name of a field, and the remedy works.

use super::agent::{options, pod_of};
use super::chart::render;
use super::{object, objects};
use epguard_core::facts::Watched;
use epguard_core::freshness::requests_per_second;
use serde_json::{Value, json};
use std::time::Duration;

/// Values that end in a crash loop or in nothing.
struct Contradiction {
    values: Value,
    /// A line of the error.
    error: &'static str,
    /// The values after the remedy.
    mended: Value,
}

fn contradiction(values: Value, error: &'static str, mended: Value) -> Contradiction {
    Contradiction {
        values,
        error,
        mended,
    }
}

fn of_addresses() -> [Contradiction; 11] {
    [
        contradiction(
            json!({"k8sServiceHost": "https://api.example", "k8sServicePort": 6443}),
            "k8sServiceHost: https://api.example is no name and no IP; leave out the scheme, the path and the port, which is \
             k8sServicePort",
            json!({"k8sServiceHost": "api.example", "k8sServicePort": 6443}),
        ),
        contradiction(
            json!({"k8sServiceHost": "10.0.0.1:6443", "k8sServicePort": 6443}),
            "k8sServiceHost: 10.0.0.1:6443 is no name and no IP; leave out the scheme, the path and the port, which is \
             k8sServicePort",
            json!({"k8sServiceHost": "2001:db8::1", "k8sServicePort": 6443}),
        ),
        contradiction(
            json!({"metrics": {"address": "127.0.0.1", "monitor": "PodMonitor"}}),
            "metrics.address: a PodMonitor cannot reach 127.0.0.1; leave it empty, or set metrics.monitor=none",
            json!({"metrics": {"address": "127.0.0.1", "monitor": "none"}}),
        ),
        contradiction(
            json!({"metrics": {"address": "::1", "monitor": "ServiceMonitor"}}),
            "metrics.address: a ServiceMonitor cannot reach ::1; leave it empty, or set metrics.monitor=none",
            json!({"metrics": {"address": "", "monitor": "ServiceMonitor"}}),
        ),
        contradiction(
            json!({"metrics": {"address": "10.0.0"}}),
            "metrics.address: 10.0.0 is no IP; leave it empty for the node's own",
            json!({"metrics": {"address": "10.0.0.1"}}),
        ),
        contradiction(
            json!({"metrics": {"address": "1::2::3"}}),
            "metrics.address: 1::2::3 is no IP; leave it empty for the node's own",
            json!({"metrics": {"address": "1::2:3"}}),
        ),
        contradiction(
            json!({"metrics": {"port": 9468}}),
            "metrics.port: 9468 is healthPort, too; choose another one",
            json!({"metrics": {"port": 9468}, "healthPort": 9469}),
        ),
        contradiction(
            json!({"metrics": {"interval": "1m", "scrapeTimeout": "61s"}}),
            "metrics.scrapeTimeout: 61s is longer than metrics.interval, 1m; shorten it, or leave it empty",
            json!({"metrics": {"interval": "1m", "scrapeTimeout": "60000ms"}}),
        ),
        contradiction(
            json!({"k8sServiceHost": "10.0.0.1"}),
            "k8sServicePort: is not set, but k8sServiceHost is; it is often 6443 or 443",
            json!({"k8sServiceHost": "10.0.0.1", "k8sServicePort": 6443}),
        ),
        contradiction(
            json!({"k8sServicePort": 6443}),
            "k8sServiceHost: is not set, but k8sServicePort is; set both or none",
            json!({"k8sServicePort": null}),
        ),
        contradiction(
            json!({"k8sServiceHost": "10.0.0.1", "k8sServicePort": 6443,
                "extraEnv": [{"name": "KUBERNETES_SERVICE_HOST", "value": "x"}]}),
            "extraEnv: KUBERNETES_SERVICE_HOST is set already; remove it",
            json!({"extraEnv": [{"name": "KUBERNETES_SERVICE_HOST", "value": "x"}]}),
        ),
    ]
}

fn of_the_agent() -> [Contradiction; 6] {
    [
        contradiction(
            json!({"agent": {"protectCidr": ["10.0.0.0/99"]}}),
            "agent.protectCidr: 10.0.0.0/99 is no range of IPs; write it as 10.244.0.0/16 or fd00:10::/32",
            json!({"agent": {"protectCidr": ["10.0.0.0/32"]}}),
        ),
        contradiction(
            json!({"agent": {"excludeCidr": ["dead/1"]}}),
            "agent.excludeCidr: dead/1 is no range of IPs; write it as 10.244.0.0/16 or fd00:10::/32",
            json!({"agent": {"excludeCidr": ["dead::/1"]}}),
        ),
        contradiction(
            json!({"agent": {"excludeCidr": ["fd00::/129"]}}),
            "agent.excludeCidr: fd00::/129 is no range of IPs; write it as 10.244.0.0/16 or fd00:10::/32",
            json!({"agent": {"excludeCidr": ["fd00::/128"]}}),
        ),
        contradiction(
            json!({"extraArgs": ["--lease=20"], "agent": {"lease": 30}}),
            "extraArgs: --lease is given twice; a value of the chart sets it, or remove one of the two",
            json!({"extraArgs": ["--lease=20"]}),
        ),
        contradiction(
            json!({"extraArgs": ["--mode=enforce"]}),
            "extraArgs: --mode is given twice; a value of the chart sets it, or remove one of the two",
            json!({"mode": "enforce"}),
        ),
        contradiction(
            json!({"extraArgs": ["--detach-on-exit"], "agent": {"detachOnExit": true}}),
            "extraArgs: --detach-on-exit is given twice; a value of the chart sets it, or remove one of the two",
            json!({"agent": {"detachOnExit": true}}),
        ),
    ]
}

fn of_the_pod() -> [Contradiction; 10] {
    let volume = json!([{"name": "ca", "configMap": {"name": "ca"}}]);
    [
        contradiction(
            json!({"priorityClassName": "none"}),
            "priorityClassName: none would be the name of a class; leave it empty for none (--set priorityClassName=)",
            json!({"priorityClassName": ""}),
        ),
        contradiction(
            json!({"serviceAccount": {"create": false}}),
            "serviceAccount.name: is not set, but serviceAccount.create is false; name the account that exists",
            json!({"serviceAccount": {"create": false, "name": "x"}}),
        ),
        contradiction(
            json!({"extraEnv": [{"name": "NODE_NAME", "value": "x"}]}),
            "extraEnv: NODE_NAME is set already; remove it",
            json!({"extraEnv": [{"name": "NODE", "value": "x"}]}),
        ),
        contradiction(
            json!({"extraVolumes": [{"name": "run", "emptyDir": {}}]}),
            "extraVolumes: run is the name of another volume; choose another one",
            json!({"extraVolumes": [{"name": "run2", "emptyDir": {}}]}),
        ),
        contradiction(
            json!({"extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}]}),
            "extraVolumeMounts: ca is no volume; add it to extraVolumes",
            json!({"extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}], "extraVolumes": volume}),
        ),
        contradiction(
            json!({"extraVolumeMounts": [{"name": "ca", "mountPath": "/run/epguard/"}], "extraVolumes": volume}),
            "extraVolumeMounts: /run/epguard/ is mounted already; choose another path",
            json!({"extraVolumeMounts": [{"name": "ca", "mountPath": "/run/other"}], "extraVolumes": volume}),
        ),
        contradiction(
            json!({"podLabels": {"app.kubernetes.io/name": "x"}}),
            "podLabels: app.kubernetes.io/name is a label of the chart's own; remove it",
            json!({"podLabels": {"name": "x"}}),
        ),
        contradiction(
            json!({"commonLabels": {"app.kubernetes.io/instance": "x"}}),
            "commonLabels: app.kubernetes.io/instance is a label of the chart's own; remove it",
            json!({"commonLabels": {"instance": "x"}}),
        ),
        contradiction(
            json!({"metrics": {"labels": {"helm.sh/chart": "x"}}}),
            "metrics.labels: helm.sh/chart is a label of the chart's own; remove it",
            json!({"metrics": {"labels": {"release": "x"}}}),
        ),
        contradiction(
            json!({"metrics": {"dashboardLabels": {"app.kubernetes.io/part-of": "x"}}}),
            "metrics.dashboardLabels: app.kubernetes.io/part-of is a label of the chart's own; remove it",
            json!({"metrics": {"dashboardLabels": {"part-of": "x"}}}),
        ),
    ]
}

fn error_of(release: &Value) -> &str {
    release["error"].as_str().unwrap_or_default()
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn each_contradiction_is_refused_with_the_field_and_its_remedy_is_accepted() {
    let mut all = Vec::from(of_addresses());
    all.extend(of_the_agent());
    all.extend(of_the_pod());
    let values: Vec<Value> = all.iter().map(|one| one.values.clone()).collect();
    let mended: Vec<Value> = all.iter().map(|one| one.mended.clone()).collect();
    for ((one, refused), release) in all.iter().zip(render(&values)).zip(render(&mended)) {
        let error = error_of(&refused);
        let has_line = error.lines().any(|line| line == one.error);
        assert!(has_line, "{}: {error}", one.values);
        let manifest = release["manifest"].as_str();
        let manifest = manifest.unwrap_or_else(|| panic!("{}: {release}", one.mended));
        let pod = pod_of(&object(&objects(manifest), "DaemonSet", "epguard"));
        let read = options(&pod);
        assert!(read.is_ok(), "{}: {:?}", one.mended, read.err());
    }
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn all_contradictions_are_named_at_once() {
    let values = json!({"priorityClassName": "none", "metrics": {"port": 9468}, "serviceAccount": {"create": false}});
    let releases = render(&[values]);
    let error = error_of(&releases[0]);
    for field in ["priorityClassName", "metrics.port", "serviceAccount.name"] {
        assert!(error.contains(&format!("\n{field}: ")), "{error}");
    }
}

/// The agent refuses a lower rate when it starts.
#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn the_lowest_rate_of_requests_is_the_agents() {
    let ages = [None, Some(3), Some(4), Some(8), Some(9), Some(37), Some(38)];
    let mut cases = Vec::new();
    for age in ages {
        let seconds = Duration::from_secs(age.unwrap_or(30));
        let least = requests_per_second(Watched::ALWAYS.len(), seconds);
        cases.push((age, least, true));
        if least > 1 {
            cases.push((age, least - 1, false));
        }
    }
    let values: Vec<Value> = cases
        .iter()
        .map(|(age, rate, _)| json!({"agent": {"maxViewAge": age, "apiRate": rate}}))
        .collect();
    for ((age, rate, is_enough), release) in cases.iter().zip(render(&values)) {
        let error = error_of(&release);
        assert_eq!(error.is_empty(), *is_enough, "{age:?} {rate}: {error}");
        assert!(*is_enough || error.contains("\nagent.apiRate: "), "{error}");
    }
}
