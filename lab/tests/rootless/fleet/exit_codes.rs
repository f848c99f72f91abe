//! The exit code of each verb: each row of the table in docs/operate.md.

use super::denials::{dropped, finding, report, usual};
use super::world::{World, condition, gone, node_of, prints, says, status};
use epguard::shared::status::Status;
use serde_json::json;
use std::collections::BTreeSet;

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

const SWITCHES: &str = "`mode`, `action`, `breaker`";

/// The first column of the page, the agents, the command and its exit code.
const ROWS: [(&str, Agents, &str, i32); 32] = [
    ("`status`", Well, "status", 0),
    ("`status`", Bad, "status", 1),
    ("`status`", Bad, "status --node worker-2", 1),
    ("`status`", Missing, "status", 2),
    ("`status`", Killed, "status", 2),
    ("`drops`, `why`, `sysdump`", Bad, "drops", 0),
    ("`drops`, `why`, `sysdump`", Missing, "drops", 2),
    ("`drops`, `why`, `sysdump`", Missing, "why 10.0.0.1", 2),
    (
        "`drops`, `why`, `sysdump`",
        Missing,
        "sysdump -f /dev/null",
        2,
    ),
    ("`drops -f`", None, "drops -f", 2),
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
    ("any", None, "status", 2),
    ("any", Well, "status --nodes x", 2),
    ("any", Well, "--help", 0),
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
    assert_eq!(documented, ROWS.map(|(row, ..)| row).into());
}
