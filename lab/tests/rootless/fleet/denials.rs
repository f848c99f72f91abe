//! `drops`, `why` and `audit` of all nodes.

use super::world::{World, condition, expect, node_of, one_hangs_one_is_gone, prints, status};
use epguard::shared::drops::{Dropped, Kind};
use epguard_lab::api::{Exec, Run};
use serde_json::{Value, json};

pub fn dropped(service: &str, packets: u64) -> Dropped {
    Dropped {
        kind: Kind {
            service: service.into(),
            endpoint: "10.244.1.10:8080".parse().unwrap(),
            protocol: "TCP".into(),
            reason: "reused".into(),
            outcome: "dropped".into(),
            meant: "shop/a".into(),
            hit: "other/b".into(),
        },
        packets,
        bytes: 60 * packets,
        openings: packets,
        clients: vec![[10, 244, 2, 5].into()],
        first_ms_ago: 400_000,
        last_ms_ago: 1000 * packets,
    }
}

/// The answer of an agent that has nothing to tell.
pub fn usual(exec: &Exec) -> Run {
    match &*exec.command[1] {
        "status" => condition(status(node_of(exec))),
        "why" => prints(&explanation("pass"), 0),
        "audit" => prints(&report(node_of(exec), &json!([])), 0),
        _ => prints(&json!([]), 0),
    }
}

/// Three nodes that answer by their number.
fn answers(world: &World, answer: fn(&Exec, u64) -> Run) {
    world.answers(move |exec| {
        let number = node_of(exec)
            .strip_prefix("worker-")
            .unwrap()
            .parse()
            .unwrap();
        answer(exec, number)
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_denial_on_several_nodes_is_one_row() {
    let world = World::new();
    answers(&world, |exec, number| {
        let mut drops = vec![dropped("shop/web", number)];
        if number == 2 {
            drops.push(dropped("team/api", 20));
        }
        drops.retain(|dropped| match &exec.command.join(" ")[..] {
            "epguard drops -o json" => true,
            "epguard drops --namespace team -o json" => dropped.kind.service == "team/api",
            "epguard drops --namespace none -o json" => false,
            command => panic!("{command}"),
        });
        prints(&drops, 0)
    });
    let all = world.run("drops").await;
    let narrow = world.run("drops -n team").await;
    let nothing = world.run("drops -n none").await;
    let json = world.run("drops -n team --node worker-2 -o json").await;
    world.answers(|exec| one_hangs_one_is_gone(exec, |_| prints(&[dropped("shop/web", 1)], 0)));
    let partial = world.run("drops --timeout 1").await;
    expect(
        "drops.txt",
        &[all, narrow, nothing, json, partial].join("\n"),
    );
}

pub fn explanation(verdict: &str) -> Value {
    json!({
        "ip": "10.244.1.10", "at": "2026-11-23T22:00:00.000Z", "now": true, "mode": "enforce",
        "verdicts": [{"service": "shop/web", "port": 8080, "protocol": "TCP", "verdict": verdict,
            "reason": (verdict == "deny").then_some("reused"), "because": "of it", "change": "nothing"}],
        "owners": [{"pod": "shop/a", "uid": "u-1", "node": "worker-1", "from": "2026-11-23T21:00:00.000Z",
            "orLater": false, "orEarlier": true, "to": null, "ended": "dead"}],
        "evidence": [], "since": "2026-11-23T21:00:00.000Z", "truncated": false,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_agree_share_an_explanation_and_those_that_deny_come_first() {
    let world = World::new();
    answers(&world, |exec, number| {
        let asked = "epguard why 10.244.1.10:8080 --service shop/web --at 5m -o json";
        assert_eq!(exec.command.join(" "), asked);
        prints(&explanation(if number == 1 { "pass" } else { "deny" }), 0)
    });
    let output = world
        .run("why 10.244.1.10:8080 --service shop/web --at 5m")
        .await;
    let wrong = world.run("why web").await;
    expect("why.txt", &[output, wrong].join("\n"));
}

pub fn report(node: &str, findings: &Value) -> Value {
    json!({"node": node, "endpoints": 1, "flows": 4, "findings": findings, "notLookedAt": []})
}

pub fn finding(state: &str, reason: &str) -> Value {
    json!({"state": state, "service": "shop/web:80", "endpoint": "10.244.1.10:8080", "protocol": "TCP", "meant": "shop/a",
        "hit": null, "reason": reason, "connection": "SYN_SENT", "count": 1, "at": "10.244.1.5:40000 -> 10.96.0.1:80"})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_shows_nodes_with_findings_and_counts_the_others() {
    let world = World::new();
    answers(&world, |exec, number| {
        let stale = number == 3;
        let findings = if stale {
            json!([finding("stale", "dead-backend")])
        } else {
            json!([])
        };
        prints(&report(node_of(exec), &findings), stale.into())
    });
    let some = world.run("audit").await;
    let wide = world.run("audit -o wide --node worker-1,worker-2").await;
    expect("audit.txt", &[some, wide].join("\n"));
}

/// What the agents know of an IP: the pod on this node shows it now.
fn shown_on(node: Option<&str>) -> Run {
    let mut answer = explanation("pass");
    answer["owners"][0]["to"] = node.map_or(json!("2026-11-23T21:30:00.000Z"), |_| Value::Null);
    answer["owners"][0]["node"] = node.into();
    prints(&answer, 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_way_asks_only_its_nodes() {
    let world = World::new();
    answers(&world, |exec, number| match &exec.command[2][..] {
        "10.244.3.5" | "fd00::3:5" => shown_on(Some("worker-3")),
        "10.244.1.11" | "10.9.9.9" => shown_on(None),
        "10.244.1.10" if number == 1 => shown_on(Some("worker-1")),
        _ => prints(&explanation("deny"), 0),
    });
    let asked = [
        "why 10.244.1.10 --client 10.244.3.5",
        // Not the first IP of its pod.
        "why 10.244.1.10 --client fd00::3:5",
        "why 10.244.1.11 --client 10.244.3.5",
        "why 10.244.1.10 --client 10.9.9.9",
        "why 10.244.1.10 --client 10.9.9.9 --node worker-1",
    ];
    world.expect_each("why-client.txt", &asked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_of_services_go_to_the_agents_command_in_every_verb_that_shows_them() {
    let world = World::empty();
    world.agent("worker-1");
    let filters = "--namespace team --service team/api";
    for verb in ["drops", "why 10.244.1.10", "audit"] {
        let expected = format!("epguard {verb} {filters} -o json");
        world.answers(move |exec| {
            assert_eq!(exec.command.join(" "), expected);
            match &*exec.command[1] {
                "drops" => prints(&[dropped("team/api", 2)], 0),
                "why" => prints(&explanation("pass"), 0),
                _ => prints(&report("worker-1", &json!([])), 0),
            }
        });
        let output = world.run(&format!("{verb} {filters}")).await;
        assert!(output.starts_with("exit code 0\n"), "{output}");
    }
    for verb in [
        "drops",
        "why 10.244.1.10",
        "audit",
        "lint --confirm-after 0",
    ] {
        world.answers(|exec| {
            assert!(!exec.command.contains(&"--namespace".to_owned()));
            usual(exec)
        });
        for all in ["-A", "--all-namespaces"] {
            let output = world.run(&format!("{verb} {all}")).await;
            assert!(output.starts_with("exit code 0\n"), "{output}");
        }
        let both = world.run(&format!("{verb} -A -n team")).await;
        assert!(both.contains("cannot be used with '--namespace"), "{both}");
    }
    for verb in ["status", "mode", "sysdump"] {
        let output = world.run(&format!("{verb} -n team")).await;
        assert!(
            output.starts_with("exit code 2\n"),
            "{verb} shows whole nodes: {output}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_without_an_agent_are_named_by_every_verb() {
    let world = World::empty();
    world.agent("worker-1");
    world.node("worker-1");
    world.node("worker-2");
    for verb in [
        "status",
        "drops",
        "why 10.244.1.10",
        "audit",
        "mode",
        "sysdump -f /dev/null",
    ] {
        let output = world.run(verb).await;
        assert_eq!(
            output.matches("node worker-2 has no agent").count(),
            1,
            "{verb}: {output}"
        );
    }
    let json = world.run("audit -o json").await;
    let document: Value = serde_json::from_str(json.split_once('\n').unwrap().1).unwrap();
    assert_eq!(document["withoutAgent"], json!(["worker-2"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_hangs_and_one_that_is_gone_are_named_by_every_verb() {
    let world = World::new();
    world.answers(|exec| {
        one_hangs_one_is_gone(exec, |exec| match &*exec.command[1] {
            "why" => prints(&explanation("deny"), 0),
            "mode" => prints(&json!(null), 0),
            _ => usual(exec),
        })
    });
    let verbs = [
        "why 10.244.1.10",
        "audit",
        "mode",
        "mode enforce",
        "mode off -y --node worker-1,worker-2",
    ];
    let verbs = verbs.map(|verb| format!("{verb} --timeout 1"));
    world
        .expect_each("partly.txt", &verbs.each_ref().map(|verb| &**verb))
        .await;
}
