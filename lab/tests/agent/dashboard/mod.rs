//! The panels of the Grafana dashboard, asked of a Prometheus that scrapes the real agent.

mod many;
mod prometheus;

use super::world::{World, dead_pod, slice};
use epguard_lab::api::{Kind, ObjectRef};
use prometheus::{Prometheus, Range, target};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

const SCRAPE: &str = "
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- {job_name: epguard, static_configs: [{targets: ['127.0.0.1:9467'], labels: {node: worker-1}}]}
";

/// Panels without data on a well node that enforces.
const EMPTY: [&str; 2] = ["Only observed", "Reports, answers and redirects lost"];

/// Leaves what the panels show in `target/dashboard.json`, of as many seconds as
/// `EPGUARD_DASHBOARD_SECONDS` says.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent, and Prometheus"]
async fn every_panel_of_the_dashboard_has_data() {
    let mut world = World::new("dashboard");
    world.start(&["--metrics-listen", "127.0.0.1:9467"]);
    world.deny();
    let address = SocketAddr::from(([127, 0, 0, 1], 9090));
    let prometheus = Prometheus::start(&world.dir, SCRAPE, address, Some(&world.netns));
    prometheus.wait();
    let seconds = env::var("EPGUARD_DASHBOARD_SECONDS").map_or(0, |text| text.parse().unwrap());
    let began = Instant::now();
    let mut moments = 0..;
    let panels = loop {
        live_on(&world, moments.next().unwrap());
        let second = began.elapsed().as_secs();
        if second < seconds {
            continue;
        }
        let panels = prometheus.panels(Range {
            end: jiff::Timestamp::now().as_second(),
            seconds: second.max(1),
            step: 1,
            window: "5s",
        });
        let missing = missing(&panels, &EMPTY);
        if missing.is_empty() && stops(&panels) {
            break panels;
        }
        assert!(
            second < 60 + seconds,
            "no data: {missing:?}, or nothing stopped\n{}",
            world.log()
        );
    };
    let file = target().join("dashboard.json");
    fs::write(file, json!(panels).to_string()).unwrap();
}

/// The titles of panels without data, but for some.
fn missing(panels: &[Value], but_for: &[&str]) -> Vec<String> {
    let mut missing = Vec::new();
    for panel in panels {
        let Some(data) = panel["data"].as_array() else {
            continue;
        };
        let title = panel["title"].as_str().unwrap();
        let is_empty = data.iter().all(|series| *series == json!([]));
        if is_empty && !but_for.contains(&title) {
            missing.push(title.to_owned());
        }
    }
    missing
}

/// True if a panel shows that packets are stopped.
fn stops(panels: &[Value]) -> bool {
    let panel = panels.iter().find(|panel| panel["title"] == "Stopped");
    let series = panel.unwrap()["data"][0].as_array().unwrap().iter();
    let mut values = series.flat_map(|series| series["values"].as_array().unwrap());
    values.any(|value| value[1].as_str().unwrap().parse::<f64>().unwrap() > 0.0)
}

/// Packets that are denied, packets to the same IP that pass, a pod that takes the IP of an earlier
/// one, and a slice that its controller has just changed.
fn live_on(world: &World, moment: u32) {
    world.connect_to_the_service();
    let suspect = SocketAddr::from(([10, 244, 1, 10], 8080));
    assert!(
        world
            .netns
            .run(|| TcpStream::connect_timeout(&suspect, Duration::from_millis(200)).is_err())
            .unwrap()
    );
    let mut pod = dead_pod(
        &format!("job-{moment}"),
        &format!("10.244.1.{}", 30 + moment % 4),
    );
    pod["metadata"]["labels"] = json!({"app": "job"});
    pod["status"] = json!({"phase": "Running", "podIPs": pod["status"]["podIPs"]});
    world.store.apply(pod).unwrap();
    if let Some(before) = moment.checked_sub(2) {
        world
            .store
            .remove(&ObjectRef::new(Kind::Pod, "shop", &format!("job-{before}")))
            .unwrap();
    }
    let uid = json!("8f14e45f-ceea-467f-a0e6-95d3b5b4a1c1");
    let mut changed = slice(
        "api-1",
        "api",
        "10.244.1.20",
        &uid,
        &json!([{"port": 1000 + moment}]),
    );
    let cause = jiff::Timestamp::now().to_string();
    changed["metadata"]["annotations"] =
        json!({"endpoints.kubernetes.io/last-change-trigger-time": cause});
    world.store.apply(changed).unwrap();
    thread::sleep(Duration::from_millis(400));
}
