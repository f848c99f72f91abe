//! The alerts, checked by promtool.

use super::schema::{Custom, RuleSpec};
use super::{deploy, documents, schema};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs promtool: cargo xtask setup installs it"]
fn promtool_accepts_the_alerts_and_they_fire_when_they_should() {
    let folder = std::env::temp_dir().join(format!("epguard-alerts-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let rule: Custom<RuleSpec> = schema::read(&documents("overlays/monitoring/prometheusrule.yaml")[0]);
    fs::write(folder.join("rules.json"), serde_json::to_string(&rule.spec).unwrap()).unwrap();
    fs::copy(deploy().join("overlays/monitoring/prometheusrule_test.yaml"), folder.join("test.yaml"))
        .unwrap();
    let said = [["check", "rules", "rules.json"], ["test", "rules", "test.yaml"]]
        .map(|arguments| promtool(&folder, &arguments));
    fs::remove_dir_all(&folder).unwrap();
    for (success, text) in said {
        assert!(success, "{text}");
    }
}

fn promtool(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin/promtool");
    let tool = if tool.exists() { tool } else { "promtool".into() };
    let output = Command::new(tool).args(arguments).current_dir(folder).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}
