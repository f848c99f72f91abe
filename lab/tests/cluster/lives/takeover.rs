//! Agents that end and start again under traffic: no allowed packet is lost, no stale one gets
//! through.

use std::thread::sleep;
use std::time::Duration;

use super::pelting::Traffic;
use crate::stage::until;
use epguard_common::Mode;
use epguard_lab::scenario::format::ApiStep;
use epguard_lab::scenario::stage::Stage;
use serde_json::json;

const TAKEOVERS: u32 = 10;
/// Pause of each of the two senders.
const PAUSE: Duration = Duration::from_micros(300);
const PACKETS_PER_SECOND: f64 = 5_000.0;
const LIVING: [(&str, &str); 1] = [("ok/api", "C")];

/// A is dead, B has its IP, and `old/web` still leads there; C is behind `ok/api`.
const STORY: &str = "
agent: AGENT
pods:
  A: {is: old/web, ip: X, labels: {app: web}}
  B: {is: new/shop, ip: X, labels: {app: shop}}
  C: {is: ok/api, labels: {app: api}}
services:
  old/web: {selector: {app: web}, protocols: [udp], target-port: 9000}
  ok/api: {selector: {app: api}, protocols: [udp], target-port: 9000}
steps:
  - pods: [A starts, C starts]
  - slices: {old/web: {A: ready}, ok/api: {C: ready}}
  - proxy: sync
  - pods: [A fails, B starts]
";

/// The stage with these flags of the agent, which enforces once `prepare` has run.
fn stage(agent: &str, prepare: impl FnOnce(&Stage)) -> Stage {
    let stage = crate::stage::stage(&STORY.replace("AGENT", agent));
    prepare(&stage);
    // A list alone denies nothing, so the first denial awaits a second list.
    until("something is denied", || {
        let dump = stage.agent.dump().unwrap();
        dump["denied"]
            .as_array()
            .unwrap()
            .iter()
            .any(|denial| denial["stopped"] == false)
    });
    stage
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn ten_takeovers_under_traffic_lose_no_packet_and_pass_no_stale_one() {
    let mut stage = stage("{mode: enforce, lease: 20}", |_| ());
    let traffic = Traffic::start(&stage, &LIVING, PAUSE);
    for takeover in 0..TAKEOVERS {
        stage.agent.kill();
        sleep(Duration::from_millis(fastrand::u64(0..400)));
        stage.agent.start_again().unwrap();
        stage.catch_up().unwrap();
        sleep(Duration::from_millis(fastrand::u64(0..200)));
        assert_eq!(
            traffic.got_through(),
            0,
            "stale packets after takeover {takeover}"
        );
    }
    let sent = traffic.stop();
    println!("{TAKEOVERS} takeovers, {sent:?}, 0 allowed lost, 0 stale got through");
    assert!(sent.per_second >= PACKETS_PER_SECOND, "{sent:?}");
}

/// The flags only observe: a new agent enforces from its start, as the `ConfigMap` that it has not
/// read yet wants.
#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn no_restart_is_a_gap_where_the_config_map_enforces() {
    let enforce = |stage: &Stage| {
        stage.cluster.store.ensure_namespace("epguard").unwrap();
        let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"mode": "enforce"},
            "metadata": {"name": "modes", "namespace": "epguard"}});
        stage.cluster.store.apply(map).unwrap();
        until("the agent enforces", || {
            stage.agent.status().unwrap().mode == Some(Mode::Enforce)
        });
    };
    let flags = "{mode: observe, lease: 20, mode-policy: epguard/modes}";
    let mut stage = stage(flags, enforce);
    let traffic = Traffic::start(&stage, &LIVING, PAUSE);
    for (ends, is_api_away) in [
        ("a rollout", false),
        ("kill -9", false),
        ("kill -9 with the API away", true),
    ] {
        if is_api_away {
            stage.cluster.set_api(ApiStep::Away);
        }
        match ends {
            "a rollout" => stage.agent.terminate().unwrap(),
            _ => stage.agent.kill(),
        }
        stage.agent.start_again().unwrap();
        if is_api_away {
            // Half of the lease that the earlier agent left at least.
            sleep(Duration::from_secs(5));
            assert_eq!(
                traffic.got_through(),
                0,
                "stale packets while the API was away"
            );
            stage.cluster.set_api(ApiStep::Back);
        }
        stage.catch_up().unwrap();
        assert_eq!(traffic.got_through(), 0, "stale packets after {ends}");
    }
    println!("{:?}, 0 allowed lost, 0 stale got through", traffic.stop());
}
