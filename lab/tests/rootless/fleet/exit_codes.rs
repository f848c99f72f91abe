//! The exit code of each verb: each row of the table in docs/operate.md.

use super::denials::{dropped, finding, report, usual};
use super::world::{World, condition, gone, node_of, prints, says, status};
use epguard::shared::status::Status;
use serde_json::json;
use std::collections::BTreeSet;
use std::process::Command;

/// What the agents are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agents {
    Well,
    /// One has problems, and stale flows.
    Bad,
    /// One could not read all.
    Partly,
    /// One is gone.
    Missing,
    /// One was killed while it answered.
    Killed,
    None,
}
use Agents::{Bad, Killed, Missing, None, Partly, Well};

const SWITCHES: &str = "`mode`, `action`, `breaker` of all nodes";

/// The first column of the page, the agents, the command and its exit code.
const ROWS: [(&str, Agents, &str, i32); 39] = [
    ("`status`", Well, "status", 0),
    ("`status`", Bad, "status", 1),
    ("`status`", Bad, "status --node worker-2", 1),
    ("`status`", Missing, "status", 2),
    ("`status`", Killed, "status", 2),
    ("`drops`, `why`, `sysdump`, `version`", Bad, "drops", 0),
    ("`drops`, `why`, `sysdump`, `version`", Missing, "drops", 2),
    (
        "`drops`, `why`, `sysdump`, `version`",
        Missing,
        "why 10.0.0.1",
        2,
    ),
    (
        "`drops`, `why`, `sysdump`, `version`",
        Missing,
        "sysdump -f /dev/null",
        2,
    ),
    ("`drops`, `why`, `sysdump`, `version`", Bad, "version", 0),
    (
        "`drops`, `why`, `sysdump`, `version`",
        Missing,
        "version",
        2,
    ),
    ("`drops -f`", None, "drops -f", 2),
    // No kubelet runs the pods of a check here.
    ("`check`", Well, "check --clean", 0),
    ("`check`", Well, "check --timeout 1", 2),
    ("`audit`", Well, "audit", 0),
    ("`audit`", Bad, "audit", 1),
    ("`audit`", Partly, "audit", 2),
    ("`audit`", Missing, "audit", 2),
    (SWITCHES, Bad, "mode", 0),
    (SWITCHES, Missing, "mode", 2),
    (SWITCHES, Well, "mode observe", 2),
    (SWITCHES, Well, "mode --reason reused", 2),
    (SWITCHES, Bad, "mode observe -y", 0),
    (SWITCHES, Missing, "mode enforce -y", 1),
    (SWITCHES, Missing, "mode off --node worker-1,worker-3 -y", 2),
    (SWITCHES, Bad, "action", 0),
    (SWITCHES, Missing, "action", 2),
    (SWITCHES, Well, "action reject", 2),
    (SWITCHES, Bad, "action reject -y", 0),
    (SWITCHES, Missing, "action drop -y --timeout 1", 1),
    (SWITCHES, Well, "breaker", 0),
    (SWITCHES, Missing, "breaker", 2),
    (SWITCHES, Well, "breaker --release -y", 0),
    ("`lint`", None, "lint --confirm-after 0", 0),
    ("`lint`", None, "lint --as-group ops", 2),
    ("any", None, "status", 2),
    ("any", Well, "status --nodes x", 2),
    ("any", Well, "status --node nowhere", 2),
    ("any", Well, "--help", 0),
];

/// Verbs of `epguard` on a node without an agent.
const ON_A_NODE: [(&str, &str); 10] = [
    ("`status`", "status --run-dir /nowhere"),
    ("`audit`", "audit --run-dir /nowhere"),
    ("any", "drops --run-dir /nowhere"),
    ("any", "why 10.0.0.1 --run-dir /nowhere"),
    ("any", "mode --pin-dir /nowhere"),
    (
        "`dump`, `breaker`, `action`, `detach`",
        "dump --pin-dir /nowhere",
    ),
    (
        "`dump`, `breaker`, `action`, `detach`",
        "breaker --run-dir /nowhere",
    ),
    (
        "`dump`, `breaker`, `action`, `detach`",
        "action drop --pin-dir /nowhere",
    ),
    ("`lint`", "lint --kubeconfig /nowhere"),
    ("any", "drops --statsu"),
];

fn answer(world: &World, agents: Agents) {
    world.answers(move |exec| {
        let node = node_of(exec);
        match (agents, node, &*exec.command[1]) {
            (Missing, "worker-3", _) => gone(),
            (Bad, "worker-2", "status") => condition(Status {
                synced: false,
                ..status(node)
            }),
            (Killed, "worker-2", "status") => {
                prints(&json!({"problems": [], "status": status(node)}), 137)
            }
            (Bad, "worker-2", "audit") => {
                prints(&report(node, &json!([finding("stale", "dead-backend")])), 1)
            }
            (Partly, "worker-2", "audit") => {
                let mut report = report(node, &json!([]));
                report["notLookedAt"] = json!(["rules: no right"]);
                prints(&report, 2)
            }
            (.., "mode") => says("", "", 0),
            (.., "drops") => prints(&[dropped("shop/web", 3)], 0),
            _ => usual(exec),
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_of_the_page_holds() {
    let world = World::new();
    let empty = World::empty();
    for (_, agents, command, code) in ROWS {
        let world = if agents == None { &empty } else { &world };
        answer(world, agents);
        let output = world.run(command).await;
        let first = output.lines().next().unwrap();
        assert_eq!(
            first,
            format!("exit code {code}"),
            "{command}, {agents:?}: {output}"
        );
    }
    for (_, command) in ON_A_NODE {
        let mut epguard = Command::new(epguard_lab::process::epguard().unwrap());
        let done = epguard.args(command.split(' ')).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{command}: {done:?}");
    }
    let page = include_str!("../../../../docs/operate.md");
    let table = page
        .split("### Exit codes")
        .nth(1)
        .unwrap()
        .split("###")
        .next()
        .unwrap();
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let documented: BTreeSet<&str> = rows
        .filter_map(|row| Some(row.split('|').nth(1)?.trim()))
        .collect();
    let of_nodes = ON_A_NODE.iter().map(|(row, _)| *row);
    let tested: BTreeSet<&str> = ROWS.iter().map(|(row, ..)| *row).chain(of_nodes).collect();
    assert_eq!(documented, tested);
}
