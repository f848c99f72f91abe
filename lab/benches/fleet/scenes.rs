//! The scenes, one after the other, with the same agents.

use super::churn;
use super::clock::now;
use super::cluster::Cluster;
use super::meter::Counts;
use super::network::Condition;
use super::objects::State;
use super::support::memory;
use std::ops::AsyncFnOnce;
use std::time::Duration;
use tokio::time::sleep;

/// How long the API server is away.
pub(crate) const AWAY: Duration = Duration::from_secs(20);
/// How long it is overloaded.
pub(crate) const OVERLOADED: Duration = Duration::from_mins(1);
/// How many times three of four Jobs finish, and how long each lasts.
pub(crate) const ROUNDS: u32 = 12;
pub(crate) const ROUND: Duration = Duration::from_secs(10);
/// How long the agents are watched after the cause is gone. Watches are opened anew after 270 to 330 s.
pub(crate) const AFTER: Duration = Duration::from_mins(4);
/// The last part of it, whose rate is compared with that at rest.
pub(crate) const LAST: Duration = Duration::from_mins(2);
/// How long after the cause means and peaks are measured.
const MEANWHILE: Duration = Duration::from_mins(1);
/// Beyond so many times the requests at rest, the agents are not at rest.
pub(crate) const FACTOR: f64 = 1.5;

/// The scene in which three of four Jobs finish.
pub(crate) const TENANT: &str = "3 of 4 Jobs finish in a loop";

/// What was measured in a scene. Rates are requests and octets a second.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) mean: [f64; 2],
    pub(crate) peak: [f64; 2],
    pub(crate) after: [f64; 2],
    pub(crate) peak_after: [f64; 2],
    /// Watches that the API server broke, and healthy ones that an agent ended.
    pub(crate) broken: usize,
    pub(crate) ended: usize,
    /// Requests that got 429.
    pub(crate) refused: usize,
    /// Reads of a whole collection.
    pub(crate) whole: usize,
    pub(crate) lapse: Duration,
    pub(crate) oldest: Duration,
    gone: Duration,
    end: Duration,
}

pub(crate) struct Played {
    pub(crate) rest: [f64; 2],
    pub(crate) scenes: Vec<Scene>,
    pub(crate) counts: Counts,
}

impl Scene {
    /// How long after the cause the requests came at the rate at rest again.
    pub(crate) fn settled(&self, played: &Played) -> Option<Duration> {
        let [rest, _] = played.rest;
        played.counts.settled(self.gone..self.end, FACTOR * rest)
    }
}

pub(crate) async fn play(cluster: &mut Cluster) -> Played {
    let churn = churn::start(cluster);
    let mut scenes = vec![scene(cluster, "all start at once", async |cluster| cluster.start()).await];
    let rest = {
        let begun = now();
        sleep(AFTER).await;
        cluster.network.meter.counts().mean(begun..now())
    };
    let each = rest[0] * 60.0 / f64::from(cluster.size.nodes);
    eprintln!(
        "at rest: {:.1} requests/s, {each:.1} a minute and agent, {:.2} MB/s",
        rest[0],
        rest[1] / 1e6
    );
    scenes.push(scene(cluster, "API server restarts, history kept", restart).await);
    scenes.push(scene(cluster, "410 for all", expire).await);
    scenes.push(scene(cluster, TENANT, finish_jobs).await);
    scenes.push(scene(cluster, "429 and timeouts for a minute", overload).await);
    let counts = cluster.network.meter.counts();
    churn.iter().for_each(tokio::task::JoinHandle::abort);
    Played { rest, scenes, counts }
}

/// The API server is away, and comes back with its history.
async fn restart(cluster: &mut Cluster) {
    cluster.network.set(Condition::Away);
    cluster.network.cut();
    sleep(AWAY).await;
    cluster.network.set(Condition::Healthy);
}

/// The API server restarts within a moment and has no history.
async fn expire(cluster: &mut Cluster) {
    cluster.store.advance();
    cluster.store.forget_history();
    cluster.network.cut();
}

/// Three of four Jobs of a Service finish, again and again, each time of another Service of the same tenant. Their pods are listed
/// for the rest of the round.
async fn finish_jobs(cluster: &mut Cluster) {
    for round in 0..ROUNDS {
        let pods = cluster.jobs(round);
        for pod in &pods {
            cluster.pod(*pod, State::Running);
        }
        cluster.list(&pods);
        sleep(ROUND / 2).await;
        for finished in &pods[1..] {
            cluster.pod(*finished, State::Ended);
        }
        sleep(ROUND / 2).await;
        cluster.clear(&pods);
    }
}

/// Connections break, and most requests fail for a while.
async fn overload(cluster: &mut Cluster) {
    cluster.network.set(Condition::Overloaded);
    cluster.network.cut();
    sleep(OVERLOADED).await;
    cluster.network.set(Condition::Healthy);
}

async fn scene(cluster: &mut Cluster, name: &'static str, cause: impl AsyncFnOnce(&mut Cluster)) -> Scene {
    let (begun, before) = (now(), cluster.network.meter.counts());
    cluster.begin();
    cause(cluster).await;
    let gone = now();
    sleep(AFTER.saturating_sub(LAST)).await;
    let settled = now();
    sleep(LAST).await;
    cluster.check();
    let (end, counts) = (now(), cluster.network.meter.counts());
    let last = settled..end;
    let (lapse, oldest) = cluster.longest();
    let meanwhile = begun..gone + MEANWHILE;
    let scene = Scene {
        name,
        mean: counts.mean(meanwhile.clone()),
        peak: counts.peak(meanwhile),
        after: counts.mean(last.clone()),
        peak_after: counts.peak(last),
        broken: counts.broken - before.broken,
        ended: counts.ended - before.ended,
        refused: counts.refused - before.refused,
        whole: counts.whole - before.whole,
        lapse,
        oldest,
        gone,
        end,
    };
    let [fewest, most, pending] = cluster.denials();
    eprintln!(
        "{name}, {:.0} s to {:.0} s: {fewest} to {most} denials of an agent, {pending} pending at most; {:.0} MB in memory{}",
        begun.as_secs_f64(),
        end.as_secs_f64(),
        memory("self", "VmRSS").unwrap_or_default() / 1e6,
        if scene.whole > 0 {
            format!("; whole collections, the last one: {}", counts.last_whole)
        } else {
            String::new()
        }
    );
    scene
}
