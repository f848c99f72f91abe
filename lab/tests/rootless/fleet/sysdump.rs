//! `kubectl epguard sysdump`.

use super::world::{World, expect, one_hangs_one_is_gone, pod, says};
use serde_json::{Value, json};
use std::process::Command;
use tempfile::tempdir;

/// An archive as `epguard sysdump` writes it.
fn archive() -> Vec<u8> {
    let folder = tempdir().unwrap();
    let inside = folder.path().join("epguard-sysdump");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("version.txt"), "0.1.0").unwrap();
    std::fs::write(inside.join("missing.txt"), "").unwrap();
    let mut tar = Command::new("tar");
    tar.args([
        "-c",
        "epguard-sysdump/version.txt",
        "epguard-sysdump/missing.txt",
    ]);
    tar.current_dir(&folder).output().unwrap().stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn one_archive_has_a_folder_for_each_node_and_names_the_missing() {
    let world = World::new();
    let event = |name: &str, pod: &str| {
        let about = json!({"kind": "Pod", "namespace": "epguard", "name": pod});
        let event = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": name, "namespace": "epguard"},
            "involvedObject": about, "reason": "Killing", "message": "m"});
        world.store.apply(event).unwrap();
    };
    event("of-an-agent", "epguard-worker-2");
    event("of-a-stranger", "stranger");
    let mut stranger = pod("worker-1");
    stranger["metadata"] = json!({"name": "stranger", "namespace": "epguard"});
    world.store.apply(stranger).unwrap();
    let content = archive();
    world.answers(move |exec| {
        one_hangs_one_is_gone(exec, |exec| {
            assert_eq!(exec.command, ["epguard", "sysdump", "-f", "/dev/stdout"]);
            says(
                content.clone(),
                "wrote /dev/stdout: 2 parts, 0 missing\n",
                0,
            )
        })
    });
    let folder = tempdir().unwrap();
    let file = folder.path().join("sysdump.tar");
    let output = world
        .run(&format!("sysdump --timeout 1 -f {}", file.display()))
        .await;
    let output = output.replace(file.to_str().unwrap(), "FILE");
    let tar = |arguments: &[&str]| {
        let tar = Command::new("tar")
            .args(arguments)
            .arg("-f")
            .arg(&file)
            .output()
            .unwrap();
        String::from_utf8(tar.stdout).unwrap()
    };
    let list = tar(&["-t"]);
    let parts = [
        "nodes/worker-1/version.txt",
        "missing.txt",
        "pods.json",
        "events.json",
    ]
    .map(|part| {
        let path = format!("epguard-sysdump/{part}");
        let read = Command::new("tar")
            .args(["-x", "-O", "-f"])
            .arg(&file)
            .arg(path)
            .output()
            .unwrap();
        String::from_utf8(read.stdout).unwrap()
    });
    let [pods, events] = [&parts[2], &parts[3]].map(|part| {
        let objects: Vec<Value> = serde_json::from_str(part).unwrap();
        let names = objects
            .iter()
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>().join(" ")
    });
    let api = format!("pods: {pods}\nevents: {events}");
    expect(
        "sysdump.txt",
        &[&[output, list], &parts[..2], &[api]].concat().join("\n"),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_with_anything_but_plain_files_is_refused_whole() {
    let world = World::empty();
    world.agent("worker-1");
    let mut content = archive();
    // The first header's type: a sparse file, whose size is its own word.
    content[156] = b'S';
    content[148..156].fill(b' ');
    let sum: u32 = content[..512].iter().map(|octet| u32::from(*octet)).sum();
    content[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    world.answers(move |_| says(content.clone(), "", 0));
    let output = world.run("sysdump -f /dev/null").await;
    expect("sysdump-hostile.txt", &output);
}
