//! `helm test`: a check by an account that exists for that time alone.

use super::chart::helm;
use super::{object, objects, text};
use clap::Parser as _;
use epguard::cli::{Cli, Command};
use serde_json::{Value, json};
use std::fs;
use std::iter;

/// What Helm makes for `helm test`, with these values.
fn hooks(values: &Value) -> Vec<Value> {
    let release = helm(&[json!(["template", values, {"hooks": true}])]).remove(0);
    let objects = objects(release["hooks"].as_str().unwrap());
    for object in &objects {
        let event = &object["metadata"]["annotations"]["helm.sh/hook"];
        assert_eq!(event, "test", "{object}");
    }
    objects
}

/// The rights that `docs/check.md` documents, and that the lab runs a check with.
fn documented() -> Value {
    let page = fs::read_to_string(super::deploy().join("../docs/check.md")).unwrap();
    let (_, yaml) = page.split_once("```yaml\n").unwrap();
    let (yaml, _) = yaml.split_once("```").unwrap();
    objects(yaml).remove(0)["rules"].clone()
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn a_check_has_the_documented_rights_while_it_runs_and_its_pod_is_no_agent() {
    assert_eq!(hooks(&json!({})), [Value::Null; 0]);
    let usual = json!({"check": {"test": true}});
    let others = json!({"check": {"test": true, "args": ["--all", "--node=a b"]}, "namespaceOverride": "guard",
        "commonLabels": {"team": "net"}});
    for (values, namespace, flags) in [
        (usual, "epguard", vec!["--agents-namespace=epguard"]),
        (
            others,
            "guard",
            vec!["--agents-namespace=guard", "--all", "--node=a b"],
        ),
    ] {
        let hooks = hooks(&values);
        let name = "epguard-helm-test";
        let role = object(&hooks, "ClusterRole", name);
        assert_eq!(role["rules"], documented());
        for kind in ["ServiceAccount", "RoleBinding", "ClusterRoleBinding"] {
            let made = object(&hooks, kind, name);
            let policy = &made["metadata"]["annotations"]["helm.sh/hook-delete-policy"];
            assert_eq!(policy, "before-hook-creation,hook-succeeded,hook-failed");
        }
        let pod = object(&hooks, "Pod", name);
        assert_eq!(pod["metadata"]["namespace"], namespace);
        assert_eq!(
            pod["metadata"]["labels"]["app.kubernetes.io/name"],
            "epguard-check"
        );
        assert_eq!(pod["spec"]["serviceAccountName"], name);
        let arguments = pod["spec"]["containers"][0]["args"].as_array().unwrap();
        let words: Vec<&str> = arguments
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        assert_eq!(words[..2], ["kubectl", "check"]);
        assert_eq!(words[2..], flags);
        let parsed = Cli::try_parse_from([&["epguard"], &words[..]].concat()).unwrap();
        let Command::Kubectl { words } = parsed.command else {
            panic!("{:?}", parsed.command);
        };
        let words = iter::once("kubectl epguard".into()).chain(words);
        assert!(kubectl_epguard::Plugin::try_parse_from(words).is_ok());
    }
    assert!(!text("epguard.yaml").contains("helm.sh/hook"));
}
