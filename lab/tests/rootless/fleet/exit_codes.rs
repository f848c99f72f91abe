//! The exit code of each verb: each row of the table in docs/operate.md.

use super::denials::{dropped, finding, report};
use super::world::{World, condition, gone, node_of, prints, says, status};
use epguard_lab::api::Run;
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

/// The first column of the page, the agents, the command and its exit code.
const ROWS: [(&str, Agents, &str, i32); 24] = [
    ("`status`", Well, "status", 0),
    ("`status`", Bad, "status", 1),
    ("`status`", Bad, "status --node worker-2", 1),
    ("`status`", Missing, "status", 2),
    ("`status`", Killed, "status", 2),
    ("`drops`, `why`, `sysdump`", Bad, "drops", 0),
    ("`drops`, `why`, `sysdump`", Missing, "drops", 2),
    ("`drops`, `why`, `sysdump`", Missing, "why 10.0.0.1", 2),
    ("`drops`, `why`, `sysdump`", Missing, "sysdump -f /dev/null", 2),
    ("`drops -f`", None, "drops -f", 2),
    ("`audit`", Well, "audit", 0),
    ("`audit`", Bad, "audit", 1),
    ("`audit`", Partly, "audit", 2),
    ("`audit`", Missing, "audit", 2),
    ("`mode`", Bad, "mode", 0),
    ("`mode`", Missing, "mode", 2),
    ("`mode`", Well, "mode observe", 2),
    ("`mode`", Well, "mode --reason reused", 2),
    ("`mode`", Bad, "mode observe -y", 0),
    ("`mode`", Missing, "mode enforce -y", 2),
    ("`mode`", Missing, "mode off --node worker-1,worker-3 -y", 2),
    ("any", None, "status", 2),
    ("any", Well, "status --nodes x", 2),
    ("any", Well, "--help", 0),
];

fn answer(world: &World, agents: Agents) {
    world.answers(move |exec| {
        let worst = node_of(exec) == "worker-3" && agents == Missing;
        if worst {
            return gone();
        }
        let odd = node_of(exec) == "worker-2";
        match &*exec.command[1] {
            "status" => {
                let mut status = status(node_of(exec));
                status.synced = !(odd && agents == Bad);
                match condition(status) {
                    Run::Prints { stdout, stderr, .. } if odd && agents == Killed => {
                        Run::Prints { stdout, stderr, code: 137 }
                    }
                    run => run,
                }
            }
            "audit" => {
                let finding = json!([finding("stale", "dead-backend")]);
                let mut report =
                    report(node_of(exec), &if odd && agents == Bad { finding } else { json!([]) });
                let code = match agents {
                    Bad if odd => 1,
                    Partly if odd => 2,
                    _ => 0,
                };
                if code == 2 {
                    report["notLookedAt"] = json!(["rules: no right"]);
                }
                prints(&report, code)
            }
            "mode" => says("", "", 0),
            "drops" => prints(&[dropped("shop/web", 3)], 0),
            _ => prints(&json!([]), 0),
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_of_the_page_holds() {
    let (world, empty) = (World::new("codes"), World::empty("codes-none"));
    for (_, agents, command, code) in ROWS {
        let world = if agents == None { &empty } else { &world };
        answer(world, agents);
        let output = world.run(command).await;
        let first = output.lines().next().unwrap();
        assert_eq!(first, format!("exit code {code}"), "{command}, {agents:?}: {output}");
    }
    let page = include_str!("../../../../docs/operate.md");
    let table = page.split("### Exit codes").nth(1).unwrap().split("###").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let documented: BTreeSet<&str> = rows.filter_map(|row| Some(row.split('|').nth(1)?.trim())).collect();
    assert_eq!(documented, ROWS.map(|(row, ..)| row).into());
}
