//! What is printed without rights, without agents, and for agents that cannot answer.

use super::denials::usual;
use super::world::{World, expect, node_of, prints, says};
use epguard_lab::api::Run;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn without_rights_or_agents_the_answer_is_one_line() {
    let world = World::empty();
    let none = world.run("status").await;
    world.agent("worker-1");
    let pods = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]});
    world.allow(&json!([]));
    let no_list = world.run("status").await;
    world.allow(&json!([pods]));
    let no_exec = world.run("status").await;
    let exec = json!({"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]});
    world.allow(&json!([exec]));
    let little = world.run("status").await;
    let archive = world.run("sysdump -f /dev/null").await;
    assert!(
        archive.starts_with("exit code 2\n")
            && archive.contains("\nevents.json: may not list events"),
        "{archive}"
    );
    expect("refusals.txt", &[none, no_list, no_exec, little].join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_roles_are_enough_for_every_verb() {
    let world = World::empty();
    world.node("worker-1");
    world.agent("worker-1");
    let mut roles: Vec<Value> =
        serde_saphyr::from_multiple(include_str!("../../../../deploy/epguard.yaml")).unwrap();
    roles.retain(|object| object["metadata"]["name"] == "epguard-operator");
    assert_eq!(roles.len(), 2);
    for role in roles {
        world.server.api.access.bind(&role).unwrap();
    }
    world.answers(|exec| match &*exec.command[1] {
        "sysdump" | "mode" | "action" => says([0; 1024], "", 0),
        _ => usual(exec),
    });
    for verb in [
        "status",
        "status -l name=worker-1",
        "drops",
        "why 10.244.1.10",
        "why 10.244.1.10 --client 10.244.3.5",
        "audit",
        "mode",
        "mode observe -y",
        "mode off -y",
        "mode enforce --canary -y",
        "mode off --node worker-1 -y",
        "action",
        "action reject -y",
        "action drop --node worker-1 -y",
        "breaker",
        "breaker --release -y",
    ] {
        let output = world.run(verb).await;
        assert!(output.starts_with("exit code 0\n"), "{verb}: {output}");
    }
    let folder = tempfile::tempdir().unwrap();
    let output = world
        .run(&format!(
            "sysdump -f {}/operator.tar",
            folder.path().display()
        ))
        .await;
    assert!(output.contains("0 nodes missing"), "{output}");
    assert_eq!(world.server.api.access.refused(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_answer_is_named_with_its_own_error() {
    let world = World::new();
    let mut waiting = super::world::pod("worker-3");
    waiting["status"]["containerStatuses"][0]["state"] =
        json!({"waiting": {"reason": "ImagePullBackOff"}});
    world.store.apply(waiting).unwrap();
    world.answers(|exec| match node_of(exec) {
        "worker-1" => says(
            "",
            "epguard: no agent answers at /run/epguard/status.sock\n",
            2,
        ),
        _ => prints(&json!({"problems": [], "status": {"form": 9}}), 0),
    });
    expect("failing.txt", &world.run("status").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_long_is_named_as_that() {
    let world = World::empty();
    world.agent("worker-1");
    world.answers(|_| says(vec![b' '; 9 << 20], "", 0));
    let output = world.run("drops").await;
    assert!(
        output.contains("no answer from worker-1: it prints 8388608 octets or more"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_is_named_with_the_remedy() {
    let world = World::new();
    world.server.faults(|faults| faults.hang = true);
    let silent = world.run("status --timeout 1").await;
    let lint = world.run("lint --timeout 1").await;
    world.server.faults(|faults| {
        faults.hang = false;
        faults.outage = true;
    });
    let broken = world.run("status").await;
    let (name, remedy) = (
        "exit code 2\nepguard: API server https://127.0.0.1:6443/ (kubeconfig ~/.kube/config, context lab): ",
        "server is right and reachable",
    );
    assert!(!silent.contains("deadline"), "{silent}");
    for text in [silent, lint, broken] {
        assert!(text.starts_with(name) && text.contains(remedy), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_named() {
    let world = World::empty();
    world.agent("worker-1");
    let (begun, begins) = tokio::sync::oneshot::channel::<()>();
    let begun = std::sync::Mutex::new(Some(begun));
    world.answers(move |_| {
        drop(begun.lock().unwrap().take());
        Run::Hangs
    });
    let (output, ()) = tokio::join!(world.run("status --timeout 60"), async {
        begins.await.unwrap_err();
        world.server.reset_connections();
    });
    expect("broken.txt", &output);
}
