//! Names and labels: releases side by side, and what stays through upgrades.

use super::chart::helm;
use super::objects;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The objects of a release with these values.
fn release(name: &str, values: &Value) -> Vec<Value> {
    let rendered = helm(&[json!(["template", values, {"release": name}])]);
    let manifest = rendered[0]["manifest"].as_str();
    objects(manifest.unwrap_or_else(|| panic!("{rendered:?}")))
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    found.next().unwrap_or_else(|| panic!("no {kind}"))
}

/// Kind, namespace and name of each object.
fn names(objects: &[Value]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for object in objects {
        let metadata = &object["metadata"];
        names.insert(format!(
            "{} {} {}",
            object["kind"], metadata["namespace"], metadata["name"]
        ));
    }
    names
}

/// Whether a selector, `matchLabels` or a Service's, selects an object with these labels.
fn selects(selector: &Value, labels: &Value) -> bool {
    let mut wanted = selector.as_object().unwrap().iter();
    wanted.all(|(key, value)| labels[key] == *value)
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn two_releases_share_no_object_and_select_their_own_pods_alone() {
    for monitor in ["ServiceMonitor", "PodMonitor"] {
        let values = json!({"metrics": {"monitor": monitor}});
        let pair = ["epguard", "epguard-edge"].map(|name| release(name, &values));
        let both: Vec<String> = names(&pair[0])
            .intersection(&names(&pair[1]))
            .cloned()
            .collect();
        assert_eq!(both, [""; 0]);
        let labels = pair.each_ref().map(|objects| {
            of_kind(objects, "DaemonSet")["spec"]["template"]["metadata"]["labels"].clone()
        });
        for (index, objects) in pair.iter().enumerate() {
            let set = of_kind(objects, "DaemonSet");
            let mut selectors = vec![&set["spec"]["selector"]["matchLabels"]];
            if monitor == "PodMonitor" {
                selectors.push(&of_kind(objects, "PodMonitor")["spec"]["selector"]["matchLabels"]);
            } else {
                selectors.push(&of_kind(objects, "Service")["spec"]["selector"]);
                let service = &of_kind(objects, "Service")["metadata"]["labels"];
                let other = &of_kind(&pair[1 - index], "Service")["metadata"]["labels"];
                let selector = &of_kind(objects, monitor)["spec"]["selector"]["matchLabels"];
                assert!(selects(selector, service) && !selects(selector, other));
            }
            for selector in selectors {
                assert!(selects(selector, &labels[index]), "{selector}");
                assert!(!selects(selector, &labels[1 - index]), "{selector}");
            }
            // `LABEL` of the plugin: it finds the agents of all releases.
            assert_eq!(labels[index]["app.kubernetes.io/name"], "epguard");
            let arguments = &set["spec"]["template"]["spec"]["containers"][0]["args"];
            let arguments = arguments.as_array().unwrap();
            assert!(arguments.contains(&json!("--mode-policy=epguard/epguard")));
        }
    }
}

/// What is about all agents has one name, so that Helm refuses a second one.
#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn the_mode_policy_the_alerts_and_the_dashboard_have_one_name_in_all_releases() {
    let values =
        json!({"modePolicy": {"mode": "observe"}, "metrics": {"alerts": true, "dashboard": true}});
    let [first, second] = ["epguard", "epguard-edge"].map(|name| names(&release(name, &values)));
    let both: Vec<&String> = first.intersection(&second).collect();
    assert_eq!(
        both,
        [
            r#""ConfigMap" "epguard" "epguard""#,
            r#""ConfigMap" "epguard" "epguard-dashboard""#,
            r#""PrometheusRule" "epguard" "epguard""#,
        ]
    );
}

/// The API server refuses another selector in an upgrade.
#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn no_value_changes_the_selector_of_the_daemon_set() {
    let usual = of_kind(&release("epguard", &json!({})), "DaemonSet")["spec"]["selector"].clone();
    for values in [
        json!({"commonLabels": {"a": "b"}, "podLabels": {"c": "d"}}),
        json!({"image": {"tag": "other"}}),
        json!({"nameOverride": "other"}),
        json!({"fullnameOverride": "other"}),
    ] {
        let set = of_kind(&release("epguard", &values), "DaemonSet").clone();
        assert_eq!(set["spec"]["selector"], usual, "{values}");
    }
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn every_object_has_the_recommended_labels_and_the_users() {
    let values = json!({
        "createNamespace": true,
        "commonLabels": {"owner": "network"},
        "commonAnnotations": {"example.com/a": "b"},
        "modePolicy": {"mode": "observe"},
        "metrics": {"monitor": "ServiceMonitor", "alerts": true, "dashboard": true},
        "operator": {"subjects": [{"kind": "User", "name": "amy"}]},
    });
    let objects = release("edge", &values);
    assert_eq!(objects.len(), 16);
    for object in &objects {
        let metadata = &object["metadata"];
        for (label, value) in [
            (
                "helm.sh/chart",
                concat!("epguard-", env!("CARGO_PKG_VERSION")),
            ),
            ("app.kubernetes.io/name", "epguard"),
            ("app.kubernetes.io/instance", "edge"),
            ("app.kubernetes.io/version", env!("CARGO_PKG_VERSION")),
            ("app.kubernetes.io/managed-by", "Helm"),
            ("app.kubernetes.io/part-of", "epguard"),
            ("owner", "network"),
        ] {
            assert_eq!(metadata["labels"][label], value, "{metadata}");
        }
        assert_eq!(metadata["annotations"]["example.com/a"], "b", "{metadata}");
    }
    let pod = &of_kind(&objects, "DaemonSet")["spec"]["template"]["metadata"];
    assert_eq!(pod["labels"]["owner"], "network");
    assert!(pod["labels"]["helm.sh/chart"].is_null());
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn names_come_from_the_release_the_values_or_both() {
    for (release_name, values, expected) in [
        ("epguard", json!({}), "epguard"),
        ("epguard-edge", json!({}), "epguard-edge"),
        ("edge", json!({}), "edge-epguard"),
        ("edge", json!({"nameOverride": "guard"}), "edge-guard"),
        ("edge", json!({"fullnameOverride": "guards"}), "guards"),
        ("123", json!({"fullnameOverride": "e1"}), "e1"),
    ] {
        let objects = release(release_name, &values);
        for kind in ["DaemonSet", "ServiceAccount", "ClusterRole", "RoleBinding"] {
            let mut named = objects.iter().filter(|object| object["kind"] == kind);
            assert!(
                named.any(|object| object["metadata"]["name"] == expected),
                "{kind} {expected}"
            );
        }
    }
    let elsewhere = release("epguard", &json!({"namespaceOverride": "elsewhere"}));
    for object in &elsewhere {
        let mut namespaces = vec![&object["metadata"]["namespace"]];
        let subjects = object["subjects"].as_array().into_iter().flatten();
        namespaces.extend(subjects.map(|subject| &subject["namespace"]));
        namespaces.retain(|namespace| !namespace.is_null());
        assert!(
            namespaces
                .iter()
                .all(|namespace| **namespace == "elsewhere")
        );
    }
    let container = &of_kind(&elsewhere, "DaemonSet")["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap();
    assert!(arguments.contains(&json!("--mode-policy=elsewhere/epguard")));
}
