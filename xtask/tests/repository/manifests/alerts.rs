//! The alerts, checked by promtool.

use super::text;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs promtool: cargo xtask setup installs it"]
fn promtool_accepts_the_alerts_and_they_fire_when_they_should() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    fs::write(folder.join("alerts.yaml"), text("chart/files/alerts.yaml")).unwrap();
    fs::write(folder.join("test.yaml"), include_str!("alerts_test.yaml")).unwrap();
    for arguments in [
        ["check", "rules", "alerts.yaml"],
        ["test", "rules", "test.yaml"],
    ] {
        let (success, text) = promtool(folder, &arguments);
        assert!(success, "{text}");
    }
}

fn promtool(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin/promtool");
    let tool = if tool.exists() {
        tool
    } else {
        "promtool".into()
    };
    let output = Command::new(tool)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}
