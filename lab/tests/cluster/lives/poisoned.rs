//! A list that shows every pod Failed: stopped before it costs a packet; denials with other proof
//! stay.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::pelting::Traffic;
use crate::stage::ip;
use epguard_lab::api::Lie;
use epguard_lab::scenario::format::Condition;
use epguard_lab::scenario::stage::Stage;
use epguard_lab::wait;

/// A's only replica died and B has its IP (#109414); the others live. No lease ends while a busy
/// machine starts an agent.
const STORY: &str = "
agent: {mode: enforce, enforce-retired: true, lease: 60, max-view-age: 300}
pods:
  A: {is: old/web, ip: X, labels: {app: web}}
  B: {is: new/shop, ip: X, labels: {app: shop}}
  S1: {is: small/s-1, labels: {app: web}}
  M1: {is: mid/m-1, labels: {app: web}}
  M2: {is: mid/m-2, labels: {app: web}}
  L1: {is: big/l-1, labels: {app: web}}
  L2: {is: big/l-2, labels: {app: web}}
  L3: {is: big/l-3, labels: {app: web}}
  L4: {is: big/l-4, labels: {app: web}}
  L5: {is: big/l-5, labels: {app: web}}
services:
  old/web: {selector: {app: web}, protocols: [udp], target-port: 9000}
  small/web: {selector: {app: web}, protocols: [udp], target-port: 9000}
  mid/web: {selector: {app: web}, protocols: [udp], target-port: 9000}
  big/web: {selector: {app: web}, protocols: [udp], target-port: 9000}
steps:
  - pods: [A starts, S1 starts, M1 starts, M2 starts, L1 starts, L2 starts, L3 starts, L4 starts, L5 starts]
  - slices:
      old/web: {A: ready}
      small/web: {S1: ready}
      mid/web: {M1: ready, M2: ready}
      big/web: {L1: ready, L2: ready, L3: ready, L4: ready, L5: ready}
  - proxy: sync
  - pods: [A fails, B starts]
";
const LIVING: [(&str, &[&str]); 3] = [
    ("small/web", &["S1"]),
    ("mid/web", &["M1", "M2"]),
    ("big/web", &["L1", "L2", "L3", "L4", "L5"]),
];
/// Whether the slices list the living pods, and whether the agent restarts. An agent that restarts
/// and never sees the pods listed has nothing to deny, so that case is missing.
const CASES: [(bool, bool); 3] = [(true, false), (true, true), (false, false)];
const PAUSE: Duration = Duration::from_millis(2);
/// At most one of so many packets is sent between two parts of a list.
const BETWEEN_PARTS: u64 = 50;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_list_of_failed_pods_drops_no_packet_before_a_second_list_confirms() {
    let mut stage = stage();
    let living = LIVING
        .iter()
        .flat_map(|(service, pods)| pods.iter().map(|pod| (*service, *pod)));
    let traffic = Traffic::start(&stage, &living.collect::<Vec<_>>(), PAUSE);
    for (listed, restart) in CASES {
        for lie in [Lie::Failed, Lie::Dead] {
            list(&mut stage, listed);
            let seen = self::lie(&mut stage, lie, 1, restart);
            println!("every pod {lie:?}, in slices {listed}, agent restarted {restart}: {seen:?}");
            assert!(seen.stopped >= 8, "not everything was stopped");
            assert_eq!(seen.carried_out, BTreeMap::new());
        }
    }
    let sent = traffic.stop();
    println!("{} packets to the living, 0 lost: {sent:?}", sent.living);
    // Nothing is judged while a busy machine keeps the agent from checking other programs, and A's
    // denial is only observed between two parts of a list that changes its reason.
    assert!(sent.got_through <= sent.stale / BETWEEN_PARTS, "{sent:?}");

    list(&mut stage, true);
    // The second list is one of each Service's pods, and one of B; a busy machine may make the
    // agent repeat one.
    let second = u32::try_from(LIVING.len()).unwrap() + 1;
    lie(&mut stage, Lie::Dead, 1 + 2 * second, false);
    let denied = carried_out(&stage);
    println!("two lists that agree: {denied:?}");
    assert_eq!(denied.values().sum::<usize>(), 8);
}

fn stage() -> Stage {
    let stage = crate::stage::stage(STORY);
    let dump = stage.agent.dump().unwrap();
    let denied = dump["denied"].as_array().unwrap();
    let only = denied
        .iter()
        .all(|row| row["service"] == "old/web" && row["stopped"] == false);
    assert!(
        only && !denied.is_empty(),
        "the only replica is not denied at once"
    );
    stage
}

/// The breaker's actions.
#[derive(Debug, Default)]
struct Seen {
    /// Most endpoints stopped at once.
    stopped: usize,
    /// By Service: most endpoints denied at once.
    carried_out: BTreeMap<String, usize>,
}

/// Whether the slices list the living pods.
fn list(stage: &mut Stage, listed: bool) {
    for (service, pods) in LIVING {
        let mut ready = BTreeMap::new();
        if listed {
            for pod in pods {
                ready.insert((*pod).to_owned(), Condition::Ready);
            }
        }
        stage.cluster.set_slice(service, &ready).unwrap();
    }
    stage.catch_up().unwrap();
}

/// Makes the agent list anew, with false lists of pods. Returns the breaker's actions until a list
/// has settled it.
fn lie(stage: &mut Stage, lie: Lie, lists: u32, restart: bool) -> Seen {
    let server = &stage.cluster.api;
    server.faults(|faults| faults.poisoned = Some((lie, Arc::new(lists.into()))));
    if restart {
        stage.agent.kill();
        stage.agent.start_again().unwrap();
    } else {
        stage.cluster.store.advance();
        stage.cluster.store.forget_history();
        server.reset_connections();
    }
    let mut seen = Seen::default();
    let settled = wait::until(Duration::from_millis(20), || {
        // An agent that is just starting has no status yet.
        let Ok(status) = stage.agent.status() else {
            return Ok(Some("no status".to_owned()));
        };
        let stopped = status.breaker.iter().map(|service| service.stopped).sum();
        seen.stopped = seen.stopped.max(stopped);
        for (service, denied) in carried_out(stage) {
            let most = seen.carried_out.entry(service).or_default();
            *most = denied.max(*most);
        }
        Ok((stopped > 0 || seen.stopped == 0).then(|| format!("not settled: {seen:?}")))
    });
    settled.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.agent.log()));
    stage.catch_up().unwrap();
    seen
}

/// Number of denied living pods, by Service.
fn carried_out(stage: &Stage) -> BTreeMap<String, usize> {
    let mut denied = BTreeMap::new();
    let dead = ip(stage, "A").to_string();
    for row in stage.agent.dump().unwrap()["denied"].as_array().unwrap() {
        let service = row["service"].as_str().unwrap();
        if row["stopped"] == false && row["ip"] != *dead {
            *denied.entry(service.to_owned()).or_default() += 1;
        }
    }
    denied
}
