//! The chart, by Helm's own engine.

use super::agent::{options, pod_of};
use super::{deploy, expect, object, objects, text};
use clap::Parser as _;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The files for `kubectl apply -f`, and the values that they are rendered with.
const FILES: [(&str, &str); 3] = [
    ("epguard.yaml", r#"{"createNamespace": true}"#),
    (
        "privileged.yaml",
        r#"{"createNamespace": true, "privileged": true}"#,
    ),
    (
        "monitoring.yaml",
        r#"{"createNamespace": true, "metrics": {"monitor": "ServiceMonitor", "alerts": true, "dashboard": true}}"#,
    ),
];

/// The result of each call, in one process of Helm's engine.
pub(super) fn helm(calls: &[Value]) -> Vec<Value> {
    let python = deploy().join("../target/tools/helm/bin/python");
    let mut command = Command::new(python);
    command
        .arg(deploy().join("helm.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut helm = command.spawn().unwrap();
    let mut input = helm.stdin.take().unwrap();
    input
        .write_all(json!(calls).to_string().as_bytes())
        .unwrap();
    drop(input);
    let output = helm.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What Helm renders with each of these values.
pub(super) fn render(values: &[Value]) -> Vec<Value> {
    let calls: Vec<Value> = values
        .iter()
        .map(|values| json!(["template", values]))
        .collect();
    helm(&calls)
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn the_files_for_kubectl_are_what_helm_renders() {
    let values = FILES.map(|(_, values)| serde_json::from_str(values).unwrap());
    for ((file, values), rendered) in FILES.into_iter().zip(render(&values)) {
        let head = format!("# Rendered from deploy/chart with the values {values}\n");
        let manifest = rendered["manifest"]
            .as_str()
            .unwrap_or_else(|| panic!("{rendered}"));
        expect(file, &(head + manifest));
    }
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn strict_lint_finds_nothing() {
    let values: Vec<Value> = FILES
        .iter()
        .map(|(_, values)| serde_json::from_str(values).unwrap())
        .collect();
    for report in helm(
        &values
            .iter()
            .map(|values| json!(["lint", values]))
            .collect::<Vec<_>>(),
    ) {
        let messages: Vec<&Value> = report["messages"].as_array().unwrap().iter().collect();
        let texts: Vec<&Value> = messages.iter().map(|message| &message["error"]).collect();
        assert!(texts.is_empty(), "{texts:?}");
        assert_eq!(report["errors"], json!([]));
    }
}

/// Some of the values that exclude none of the others.
fn combinations() -> Vec<Value> {
    let choices: [(&str, &[&str]); 8] = [
        ("/mode", &[r#""observe""#, r#""enforce""#, "false"]),
        (
            "/reasons",
            &[
                "{}",
                r#"{"terminated": {"mode": false, "action": "reject"}, "reused": {"mode": "observe"}}"#,
            ],
        ),
        (
            "/modePolicy",
            &[
                "{}",
                r#"{"mode": "observe", "canary-mode": "enforce", "terminated": false}"#,
            ],
        ),
        (
            "/metrics/monitor",
            &[r#""none""#, r#""ServiceMonitor""#, r#""PodMonitor""#],
        ),
        ("/metrics/alerts", &["false", "true"]),
        ("/metrics/dashboard", &["false", "true"]),
        (
            "/operator",
            &[
                r#"{"create": false}"#,
                "{}",
                r#"{"subjects": [{"kind": "Group", "name": "sre", "apiGroup": "rbac.authorization.k8s.io"}]}"#,
            ],
        ),
        ("/privileged", &["false", "true"]),
    ];
    let mut all = vec![json!({"metrics": {}})];
    for (path, values) in choices {
        let (parent, key) = path.rsplit_once('/').unwrap();
        let with = |values: &Value, value: &str| {
            let mut values = values.clone();
            values.pointer_mut(parent).unwrap()[key] = serde_json::from_str(value).unwrap();
            values
        };
        all = all
            .iter()
            .flat_map(|one| values.iter().map(move |value| with(one, value)))
            .collect();
    }
    all
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn every_combination_gives_valid_objects_and_arguments_that_the_agent_takes() {
    let all = combinations();
    // Most documents are in many releases.
    let mut known: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (values, rendered) in all.iter().zip(render(&all)) {
        let manifest = rendered["manifest"]
            .as_str()
            .unwrap_or_else(|| panic!("{values}: {rendered}"));
        let documents = manifest.split("---\n# Source").skip(1);
        let objects: Vec<Value> = documents
            .flat_map(|text| {
                known
                    .entry(text.to_owned())
                    .or_insert_with(|| objects(&format!("# Source{text}")))
                    .clone()
            })
            .collect();
        let kinds: Vec<&str> = objects
            .iter()
            .map(|object| object["kind"].as_str().unwrap())
            .collect();
        let mut expected = vec![
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
            "DaemonSet",
        ];
        let has_roles = values["operator"]["create"] != false;
        let monitor = values["metrics"]["monitor"].as_str().unwrap();
        for (is_there, kinds) in [
            (has_roles, &["ClusterRole", "Role"][..]),
            (
                values["operator"]["subjects"].is_array(),
                &["ClusterRoleBinding", "RoleBinding"],
            ),
            (values["modePolicy"] != json!({}), &["ConfigMap"]),
            (monitor != "none", &[monitor]),
            (monitor == "ServiceMonitor", &["Service"]),
            (values["metrics"]["alerts"] == true, &["PrometheusRule"]),
            (values["metrics"]["dashboard"] == true, &["ConfigMap"]),
        ] {
            if is_there {
                expected.extend(kinds);
            }
        }
        assert_eq!(sorted(&kinds), sorted(&expected), "{values}");
        let pod = pod_of(&object(&objects, "DaemonSet", "epguard"));
        let options = options(&pod).unwrap_or_else(|error| panic!("{values}: {error}"));
        let shown = format!("{options:?}").to_lowercase();
        let mode = values["mode"].as_str().unwrap_or("off");
        assert!(
            shown.contains(&format!(" mode: {mode}, ")),
            "{mode}: {shown}"
        );
    }
}

fn sorted<'a>(kinds: &[&'a str]) -> Vec<&'a str> {
    let mut kinds = kinds.to_vec();
    kinds.sort_unstable();
    kinds
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn only_privileged_agents_have_more_than_the_named_capabilities() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let rendered = render(&[
        json!({}),
        json!({"privileged": true}),
        json!({"seccompProfile": {"type": "RuntimeDefault"}, "image": {"repository": "r.example:5000/e", "digest": digest}}),
    ]);
    let containers: Vec<Value> = rendered
        .iter()
        .map(|release| objects(release["manifest"].as_str().unwrap()))
        .map(|objects| json!(pod_of(&object(&objects, "DaemonSet", "epguard")).containers[0]))
        .collect();
    let mut named = json!({
        "allowPrivilegeEscalation": false,
        "runAsUser": 0,
        "runAsGroup": 0,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"], "add": ["BPF", "NET_ADMIN", "PERFMON"]},
        "appArmorProfile": {"type": "Unconfined"},
        "seccompProfile": {"type": "Unconfined"},
        "seLinuxOptions": {"type": "spc_t"},
    });
    assert_eq!(containers[0]["securityContext"], named);
    assert_eq!(
        containers[1]["securityContext"],
        json!({"privileged": true, "runAsUser": 0, "runAsGroup": 0, "readOnlyRootFilesystem": true})
    );
    named["seccompProfile"]["type"] = "RuntimeDefault".into();
    assert_eq!(containers[2]["securityContext"], named);
    assert_eq!(containers[2]["image"], format!("r.example:5000/e@{digest}"));
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn only_agents_that_write_events_may_do_so() {
    let choices = [None, Some("all"), Some("breaker"), Some("none")];
    let values = choices.map(|events| json!({"agent": {"events": events}}));
    for (events, rendered) in choices.into_iter().zip(render(&values)) {
        let role = object(
            &objects(rendered["manifest"].as_str().unwrap()),
            "ClusterRole",
            "epguard",
        );
        let rules = role["rules"].as_array().unwrap();
        let may = rules
            .iter()
            .any(|rule| rule["resources"] == json!(["events"]));
        assert_eq!(may, events != Some("none"), "{events:?}");
    }
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn metrics_are_served_where_the_monitor_asks_and_health_stays_on_loopback() {
    for (monitor, address, listen, port) in [
        ("none", "", "127.0.0.1:9467", 9467),
        ("none", "::1", "[::1]:9467", 9467),
        ("ServiceMonitor", "", "[$(HOST_IP)]:9467", 9467),
        ("PodMonitor", "192.0.2.7", "192.0.2.7:9100", 9100),
    ] {
        let values = json!({"healthPort": 9500, "metrics": {"monitor": monitor, "address": address, "port": port}});
        let objects = objects(render(&[values])[0]["manifest"].as_str().unwrap());
        let container = pod_of(&object(&objects, "DaemonSet", "epguard"))
            .containers
            .remove(0);
        let arguments: BTreeSet<String> = container.args.unwrap().into_iter().collect();
        assert!(
            arguments.contains(&format!("--metrics-listen={listen}")),
            "{arguments:?}"
        );
        assert!(
            arguments.contains("--health-listen=127.0.0.1:9500"),
            "{arguments:?}"
        );
        for probe in [
            container.startup_probe,
            container.liveness_probe,
            container.readiness_probe,
        ] {
            let get = probe.unwrap().http_get.unwrap();
            assert_eq!(
                (get.host.as_deref(), json!(get.port)),
                (Some("127.0.0.1"), json!(9500))
            );
        }
        let asked = match monitor {
            "ServiceMonitor" => {
                object(&objects, "Service", "epguard")["spec"]["ports"][0]["targetPort"].clone()
            }
            "PodMonitor" => json!(container.ports.unwrap()[0].container_port),
            _ => continue,
        };
        assert_eq!(asked, port);
    }
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn the_dashboard_and_the_alerts_are_the_files_with_links_to_the_pages() {
    let values = json!({"metrics": {
        "alerts": true,
        "dashboard": true,
        "labels": {"release": "prometheus"},
        "runbookUrl": "https://pages.example.com/epguard/",
    }});
    let objects = objects(render(&[values])[0]["manifest"].as_str().unwrap());
    let file = |name| text(name).replace("RUNBOOKS/", "https://pages.example.com/epguard/");
    let map = object(&objects, "ConfigMap", "epguard-dashboard");
    let dashboard: Value =
        serde_json::from_str(map["data"]["dashboard.json"].as_str().unwrap()).unwrap();
    let expected: Value = serde_json::from_str(&file("chart/files/dashboard.json")).unwrap();
    assert_eq!(dashboard, expected);
    let rule = object(&objects, "PrometheusRule", "epguard");
    let alerts: Value = serde_saphyr::from_str(&file("chart/files/alerts.yaml")).unwrap();
    assert_eq!(rule["spec"], alerts);
    assert_eq!(rule["metadata"]["labels"]["release"], "prometheus");
}

/// Without a value of their own, the links lead into the repository that is the chart's home, or
/// name a file of the chart's source.
#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn the_links_of_the_alerts_come_from_the_charts_home() {
    let chart: Value = serde_saphyr::from_str(&text("chart/Chart.yaml")).unwrap();
    let base = match chart["home"].as_str() {
        Some(home) => format!(
            "{home}/blob/v{}/docs/",
            chart["appVersion"].as_str().unwrap()
        ),
        None => "docs/".to_owned(),
    };
    let values = json!({"metrics": {"alerts": true}});
    let objects = objects(render(&[values])[0]["manifest"].as_str().unwrap());
    let rules = &object(&objects, "PrometheusRule", "epguard")["spec"]["groups"][0]["rules"];
    for rule in rules.as_array().unwrap() {
        let link = rule["annotations"]["runbook_url"].as_str().unwrap();
        assert!(link.starts_with(&base), "{link} does not begin with {base}");
    }
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn a_bad_value_is_refused_with_its_place_and_what_is_allowed() {
    let cases = [
        (json!({"mod": "enforce"}), "'mod' not allowed"),
        (
            json!({"mode": "enforced"}),
            "at '/mode': value must be one of 'off', 'observe', 'enforce'",
        ),
        (
            json!({"action": "redirect"}),
            "at '/action': value must be one of 'drop', 'reject'",
        ),
        (
            json!({"reasons": {"stale": {}}}),
            "at '/reasons': additional properties 'stale' not allowed",
        ),
        (
            json!({"modePolicy": {"canary": "off"}}),
            "at '/modePolicy': additional properties 'canary' not allowed",
        ),
        (
            json!({"agent": {"lease": 2}}),
            "at '/agent/lease': minimum: got 2, want 3",
        ),
        (
            json!({"agent": {"xdp": "on"}}),
            "at '/agent/xdp': value must be one of 'auto', 'driver'",
        ),
        (
            json!({"agent": {"protectCidr": ["10.0.0.1"]}}),
            "at '/agent/protectCidr/0': '10.0.0.1' does not match",
        ),
        (
            json!({"image": {"tag": 3}}),
            "at '/image/tag': got number, want string",
        ),
        (
            json!({"image": {"digest": "0123"}}),
            "at '/image/digest': '0123' does not match",
        ),
        (
            json!({"metrics": {"port": 99_999}}),
            "at '/metrics/port': maximum",
        ),
        (
            json!({"agent": {"ciliumMaps": "/sys/x: y"}}),
            "at '/agent/ciliumMaps'",
        ),
        (
            json!({"agent": {"podInterfaces": ["[^a]*"]}}),
            "at '/agent/podInterfaces/0'",
        ),
        (json!({"mode": null}), "missing property 'mode'"),
        (json!({"agent": null}), "missing property 'agent'"),
        (json!({"image": null}), "missing property 'image'"),
        (json!({"metrics": null}), "missing property 'metrics'"),
        (
            json!({"metrics": {"monitor": null}}),
            "at '/metrics': missing property 'monitor'",
        ),
        (
            json!({"metrics": {"dashboardLabels": null}}),
            "at '/metrics': missing property 'dashboardLabels'",
        ),
        (
            json!({"operator": {"subjects": [{"kind": "ServiceAccount", "name": "x"}]}}),
            "at '/operator/subjects/0': missing property 'namespace'",
        ),
        (
            json!({"operator": {"subjects": [{"kind": "Group", "name": "x", "namespace": "y"}]}}),
            "at '/operator/subjects/0/namespace'",
        ),
        (
            json!({"seccompProfile": {"type": "Localhost"}}),
            "at '/seccompProfile': missing property 'localhostProfile'",
        ),
        (
            json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}),
            "at '/updateStrategy/rollingUpdate': additional properties 'maxSurge' not allowed",
        ),
        (
            json!({"commonLabels": {"a b": "c"}}),
            "at '/commonLabels': additional properties 'a b' not allowed",
        ),
        (
            json!({"fullnameOverride": "Epguard"}),
            "at '/fullnameOverride'",
        ),
        (json!({"extraArgs": ["lease=5"]}), "at '/extraArgs/0'"),
        (
            json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}),
            "at '/updateStrategy/rollingUpdate/maxUnavailable': minimum: got 0, want 1",
        ),
    ];
    let values: Vec<Value> = cases.iter().map(|(values, _)| values.clone()).collect();
    for ((values, place), refused) in cases.into_iter().zip(render(&values)) {
        let error = refused["error"]
            .as_str()
            .unwrap_or_else(|| panic!("{values} is taken"));
        assert!(error.contains(place), "{values}: {error}");
    }
}

/// The plugin's commands in NOTES.txt, and that each thing that is switched on is named there.
#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn the_notes_name_what_is_on_and_commands_that_exist() {
    let values = json!({"mode": "enforce", "privileged": true, "modePolicy": {"reused": "off"}, "metrics": {"monitor": "PodMonitor"}});
    let warned = json!({"agent": {"uplinks": ["eth0"]}, "metrics": {"alerts": true}});
    for (release, expected) in render(&[json!({}), values, warned]).iter().zip([
        &[
            "starts in mode observe",
            "127.0.0.1:9467",
            "kubectl epguard mode enforce",
        ][..],
        &[
            "starts in mode enforce",
            r#"{"reused":"off"}"#,
            "PodMonitor",
            "privileged",
            "--set modePolicy.mode=observe",
        ],
        &[
            "EpguardAbsent fires until then",
            "agent.uplinks is set, and agent.podInterfaces is not",
        ],
    ]) {
        let notes = release["notes"].as_str().unwrap();
        assert!(
            expected.iter().all(|text| notes.contains(text)),
            "{expected:?}: {notes}"
        );
        for line in notes
            .lines()
            .filter_map(|line| line.trim().strip_prefix("kubectl epguard "))
        {
            let words = ["kubectl epguard"].into_iter().chain(line.split(' '));
            assert!(
                kubectl_epguard::Plugin::try_parse_from(words).is_ok(),
                "{line}"
            );
        }
    }
}
