//! `kubectl epguard sysdump`.

use super::world::{World, expect, one_hangs_one_is_gone};
use epguard_lab::api::Run;
use std::process::Command;

/// An archive as `epguard sysdump` writes it.
fn archive() -> Vec<u8> {
    let folder = std::env::temp_dir().join(format!("epguard-fleet-archive-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("epguard-sysdump")).unwrap();
    std::fs::write(folder.join("epguard-sysdump/version.txt"), "0.1.0").unwrap();
    std::fs::write(folder.join("epguard-sysdump/missing.txt"), "").unwrap();
    let mut tar = Command::new("tar");
    tar.args(["-c", "epguard-sysdump/version.txt", "epguard-sysdump/missing.txt"]);
    let tar = tar.current_dir(&folder).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    tar.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn one_archive_has_a_folder_for_each_node_and_names_the_missing() {
    let world = World::new("sysdump");
    let content = archive();
    world.server.execs().answer(move |exec| {
        one_hangs_one_is_gone(exec, |exec| {
            assert_eq!(exec.command, ["epguard", "sysdump", "-f", "/dev/stdout"]);
            Run::Prints {
                stdout: content.clone(),
                stderr: "wrote /dev/stdout: 2 parts, 0 missing\n".into(),
                code: 0,
            }
        })
    });
    let file = std::env::temp_dir().join(format!("epguard-fleet-sysdump-{}.tar", std::process::id()));
    let output = world
        .run(&["sysdump", "--timeout", "1", "-f", file.to_str().unwrap()])
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
    let parts = ["nodes/worker-1/version.txt", "missing.txt"].map(|part| {
        let path = format!("epguard-sysdump/{part}");
        let read = Command::new("tar")
            .args(["-x", "-O", "-f"])
            .arg(&file)
            .arg(path)
            .output()
            .unwrap();
        String::from_utf8(read.stdout).unwrap()
    });
    std::fs::remove_file(&file).unwrap();
    expect("sysdump.txt", &[&[output, list], &parts[..]].concat().join("\n"));
}
