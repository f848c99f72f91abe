//! Where epguard works, each row is as it has to be.

use super::rig::{Ended, Rig};
use serde_json::{Value, json};

/// The rows about these calls: caller, family, protocol, sent, seen, outcomes.
fn rows(ended: &Ended, story: &str) -> Vec<Value> {
    let document = ended.document();
    let all = document["rows"].as_array().unwrap().clone();
    let of_story = all.into_iter().filter(|row| row["story"] == story);
    of_story.collect()
}

/// Each row of a story has these outcomes, for both families and both protocols.
#[track_caller]
fn each_is(ended: &Ended, story: &str, outcomes: &Value, answered: u64) {
    let rows = rows(ended, story);
    let mut places = std::collections::BTreeSet::new();
    for row in &rows {
        places.insert(format!("{}{}", row["family"], row["protocol"]));
        let seen = if *outcomes == json!({}) { 0 } else { 10 };
        assert_eq!(
            [&row["sent"], &row["seen"]],
            [&json!(10), &json!(seen)],
            "{row}"
        );
        assert_eq!(&row["outcomes"], outcomes, "{row}");
        assert_eq!(row["answered"], answered, "{row}");
    }
    assert_eq!(places.len(), 4, "{rows:?}");
}

/// The check passes, is carried out in this way, and leaves nothing.
#[track_caller]
fn passes(rig: &mut Rig, words: &str, finished: &str) {
    let ended = rig.run(&format!("check -o json {words}"));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(ended.document()["ok"], true);
    each_is(&ended, "finished", &json!({finished: 10}), 0);
    each_is(&ended, "reused", &json!({"observed": 10}), 10);
    each_is(&ended, "live-service", &json!({}), 10);
    each_is(&ended, "live-pod", &json!({}), 10);
    rig.is_clean();
    let status = rig.stage.agent.status().unwrap();
    assert_eq!(status.wrong_denies.values().sum::<u64>(), 0, "{status:?}");
    assert_eq!(status.demoted_services, [""; 0]);
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn a_check_sees_each_stale_call_once_and_no_other_and_leaves_nothing() {
    let mut rig = Rig::new("{mode: observe}");
    passes(&mut rig, "", "observed");
    let ended = rig.run("check --host");
    assert_eq!(ended.code, 0, "{ended:?}");
    let text = ended.out;
    for words in [
        "1 node: each call was seen as it has to be",
        "node-a  pod     IPv4    TCP       10 of 10  10 of 10  0 of 10       0 of 10   ok",
        "node-a  host    IPv6    UDP       10 of 10  10 of 10  0 of 10       0 of 10   ok",
    ] {
        assert!(text.contains(words), "{text}");
    }
    assert!(
        ended
            .err
            .contains("epguard check: makes the namespaces epguard-check-")
    );
    rig.is_clean();
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn a_node_without_an_agent_is_named_and_a_chosen_one_is_no_pass() {
    let mut rig = Rig::new("{mode: observe}");
    let whole = rig.run("check --all -o wide");
    assert_eq!(whole.code, 0, "{whole:?}");
    for words in [
        "1 node: each call was seen as it has to be",
        "node-a  pod     IPv4    TCP       FINISHED      10 of 10  10 observed  0         ok",
        "not checked: node-b: no agent runs there: see the Events of the DaemonSet",
    ] {
        assert!(whole.out.contains(words), "{words}: {whole:?}");
    }
    for step in [
        "each node makes 10 calls to each of 16 targets",
        "asks the agents what they have counted before the calls",
        "asks the agents what they have counted after the calls",
    ] {
        assert!(whole.err.contains(step), "{step}: {whole:?}");
    }
    let both = rig.run("check --node node-a,node-b -o json");
    assert_eq!(both.code, 2, "{both:?}");
    let document = both.document();
    assert_eq!(document["ok"], true);
    let missing = json!([{"node": "node-b", "why": "no agent runs there"}]);
    assert_eq!(document["notChecked"], missing);
    for (nodes, cause) in [
        ("node-b", "nothing is made: node node-b has no agent, "),
        (
            "node-a,nope",
            "the cluster has no node nope: `kubectl get nodes` lists them",
        ),
    ] {
        let refused = rig.run(&format!("check --node {nodes}"));
        assert_eq!((refused.code, &*refused.out), (2, ""), "{refused:?}");
        assert!(refused.err.contains(cause), "{refused:?}");
    }
    rig.is_clean();
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn in_enforce_calls_to_the_finished_pod_are_stopped_by_the_action_in_force() {
    let mut rig = Rig::new("{mode: enforce, action: drop}");
    passes(&mut rig, "", "dropped");
    rig.stage.agent.run("action reject").unwrap();
    passes(&mut rig, "", "rejected");
}

#[test]
#[ignore = "needs root: network namespaces and eBPF"]
fn each_of_two_nodes_calls_the_other_ones_finished_pod_and_has_rows_of_its_own() {
    let mut rig = Rig::new("{mode: enforce, action: reject}").with_second_agent("observe");
    let ended = rig.run("check -o json --all");
    assert_eq!(ended.code, 0, "{ended:?}");
    for (node, outcome) in [("node-a", "rejected"), ("node-b", "observed")] {
        let mut finished = rows(&ended, "finished");
        finished.retain(|row| row["node"] == node);
        assert_eq!(finished.len(), 4, "{ended:?}");
        for row in finished {
            assert_eq!(row["outcomes"], json!({outcome: 10}), "{row}");
            assert_eq!(row["note"], Value::Null, "{row}");
        }
    }
    rig.is_clean();
}

#[test]
#[ignore = "needs root: network namespaces, cgroups and eBPF"]
fn beside_a_load_balancer_at_sockets_each_call_is_seen_once_if_it_would_be_dropped() {
    let mut rig = Rig::beside_a_socket_lb("{mode: observe}");
    let ended = rig.run("check --host");
    assert_eq!(ended.code, 0, "{ended:?}");
    rig.is_clean();
    // Enforced, the call would be refused, and so it counts beside its packet.
    rig.stage.agent.run("action reject").unwrap();
    let ended = rig.run("check");
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(
        ended
            .out
            .contains("counts when it connects, and by its SYN"),
        "{ended:?}"
    );
    rig.is_clean();
}
