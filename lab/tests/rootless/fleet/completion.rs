//! Completion, by the script that kubectl runs.

use super::world::{World, expect};
use std::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn kubectls_script_completes_verbs_and_flags() {
    let world = World::new("complete");
    let folder = std::env::temp_dir().join(format!("epguard-complete-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let plugin = folder.join("kubectl-epguard");
    std::os::unix::fs::symlink(world.command(&[]).get_program(), &plugin).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/kubectl_complete-epguard");
    let complete = |words: &[&str]| {
        let output = Command::new(script)
            .args(words)
            .env("PATH", &folder)
            .env("KUBECONFIG", world.kubeconfig())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let complete = |words: &[&str]| tokio::task::block_in_place(|| complete(words));
    let all = [
        &["b"][..],
        &["drops", "--re"],
        &["mode", ""],
        &["status", "-o", ""],
        &["status", "--node", "worker-"],
        &["--node", "worker-1,w"],
        &["status", "--node=worker-2"],
        &["status", "--context", ""],
    ]
    .map(complete);
    std::fs::remove_dir_all(&folder).unwrap();
    expect("completion.txt", &all.join("\n"));
}
