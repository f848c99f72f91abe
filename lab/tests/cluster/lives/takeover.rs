//! Agents that end and start again under traffic: no allowed packet is lost, no stale one gets through.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::pelting::{Catching, Pelting};
use crate::stage::until;
use epguard_common::Mode;
use epguard_lab::scenario::format::ApiStep;
use epguard_lab::scenario::stage::Stage;
use serde_json::json;

const TAKEOVERS: u32 = 10;
/// Pause of each of the two senders.
const PAUSE: Duration = Duration::from_micros(300);
const PACKETS_PER_SECOND: f64 = 5_000.0;

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

/// Two senders, one to each Service, and the receivers.
struct Traffic {
    begun: Instant,
    stale: Pelting,
    allowed: Pelting,
    hit: Catching,
    served: Catching,
}

impl Traffic {
    /// Starts the senders in the pod `client`.
    fn start(stage: &Stage) -> Self {
        let send = |service| Pelting::of_client(stage, service, PAUSE);
        let (hit, served) = (Catching::in_pod(stage, "B"), Catching::in_pod(stage, "C"));
        Self { begun: Instant::now(), stale: send("old/web"), allowed: send("ok/api"), hit, served }
    }

    /// How many stale packets got through.
    fn got_through(&self) -> usize {
        self.hit.wait(|_| true).len()
    }

    /// Ends the traffic; asserts that no allowed packet was lost. Returns the number sent, and the rate.
    fn stop(self) -> (u64, f64) {
        let (stale, allowed) = (self.stale.stop(), self.allowed.stop());
        let seconds = self.begun.elapsed().as_secs_f64();
        let served = self.served.wait(|numbers| numbers.len() as u64 == allowed);
        let lost: Vec<u64> =
            (0..allowed).filter(|number| served.binary_search(number).is_err()).take(10).collect();
        assert!(lost.is_empty(), "lost: {lost:?} ... of {allowed}, {} arrived", served.len());
        let sent = stale + allowed;
        #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
        let rate = sent as f64 / seconds;
        (sent, rate)
    }
}

/// The stage with these flags of the agent, which enforces once `prepare` has run.
fn stage(agent: &str, prepare: impl FnOnce(&Stage)) -> Stage {
    let stage = crate::stage::stage(&STORY.replace("AGENT", agent));
    prepare(&stage);
    // A list alone denies nothing, so the first denial waits for its confirmation.
    until("something is denied", || {
        let dump = stage.agent.dump().unwrap();
        dump["denied"].as_array().unwrap().iter().any(|denial| denial["held"] == false)
    });
    stage
}

/// An agent that enforces from its start.
fn enforcing() -> Stage {
    stage("{mode: enforce, lease: 6}", |_| ())
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn ten_takeovers_under_traffic_lose_no_packet_and_pass_no_stale_one() {
    let mut stage = enforcing();
    let traffic = Traffic::start(&stage);
    for takeover in 0..TAKEOVERS {
        stage.agent.kill();
        sleep(Duration::from_millis(fastrand::u64(0..400)));
        stage.agent.start_again().unwrap();
        stage.catch_up().unwrap();
        sleep(Duration::from_millis(fastrand::u64(0..200)));
        assert_eq!(traffic.got_through(), 0, "stale packets after takeover {takeover}");
    }
    let (sent, rate) = traffic.stop();
    println!(
        "{TAKEOVERS} takeovers, {sent} packets at {rate:.0} a second: 0 allowed lost, 0 stale got through"
    );
    assert!(rate >= PACKETS_PER_SECOND, "only {rate:.0} packets a second");
}

/// The flags only observe: a new agent enforces from its start, as the `ConfigMap` that it has not read yet wants.
#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn no_restart_is_a_gap_where_the_config_map_enforces() {
    let enforce = |stage: &Stage| {
        stage.cluster.store.ensure_namespace("epguard").unwrap();
        let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"mode": "enforce"},
            "metadata": {"name": "modes", "namespace": "epguard"}});
        stage.cluster.store.apply(map).unwrap();
        until("the agent enforces", || stage.agent.status().unwrap().mode == Some(Mode::Enforce));
    };
    let flags = "{mode: observe, lease: 6, fleet-config: epguard/modes}";
    let mut stage = stage(flags, enforce);
    let traffic = Traffic::start(&stage);
    for (ends, is_api_away) in [("a rollout", false), ("kill -9", false), ("kill -9 with the API away", true)]
    {
        if is_api_away {
            stage.cluster.set_api(ApiStep::Away);
        }
        match ends {
            "a rollout" => stage.agent.terminate().unwrap(),
            _ => stage.agent.kill(),
        }
        stage.agent.start_again().unwrap();
        if is_api_away {
            // Half of the lease that the earlier agent left.
            sleep(Duration::from_millis(1500));
            assert_eq!(traffic.got_through(), 0, "stale packets while the API was away");
            stage.cluster.set_api(ApiStep::Back);
        }
        stage.catch_up().unwrap();
        assert_eq!(traffic.got_through(), 0, "stale packets after {ends}");
    }
    let (sent, rate) = traffic.stop();
    println!("{sent} packets at {rate:.0} a second: 0 allowed lost, 0 stale got through");
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn denials_of_a_killed_agent_end_with_its_lease() {
    let mut stage = enforcing();
    let traffic = Traffic::start(&stage);
    stage.agent.kill();
    let killed = Instant::now();
    sleep(Duration::from_millis(1500));
    assert_eq!(traffic.got_through(), 0, "denials ended before the lease");
    stage.agent.await_lease(false).unwrap();
    let lease = killed.elapsed();
    let seen = traffic.hit.wait(|numbers| !numbers.is_empty());
    assert!(!seen.is_empty(), "stale packets are denied past the lease");
    stage.agent.start_again().unwrap();
    stage.catch_up().unwrap();
    let before = traffic.got_through();
    sleep(Duration::from_millis(300));
    assert_eq!(traffic.got_through(), before, "the next agent does not deny");
    let (sent, rate) = traffic.stop();
    println!(
        "denied for {:.1} s after the kill, then passed; {sent} packets at {rate:.0} a second, 0 allowed lost",
        lease.as_secs_f32()
    );
}
