//! The panels of the Grafana dashboard, asked of a Prometheus that scrapes the real agent.

use super::world::{World, dead_pod, slice};
use epguard_lab::api::{Kind, ObjectRef};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

const SCRAPE: &str = "
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- {job_name: epguard, static_configs: [{targets: ['127.0.0.1:9467'], labels: {node: worker-1}}]}
";

/// Where Prometheus answers.
const SERVER: &str = "127.0.0.1:9090";

/// Leaves what the panels show in `target/dashboard.json`, of as many seconds as
/// `EPGUARD_DASHBOARD_SECONDS` says.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent, and Prometheus"]
async fn every_panel_of_the_dashboard_has_data() {
    let mut world = World::new("dashboard");
    world.start(&["--metrics-listen", "127.0.0.1:9467"]);
    let _prometheus = Prometheus::start(&world);
    world.deny();
    let seconds = env::var("EPGUARD_DASHBOARD_SECONDS").map_or(0, |text| text.parse().unwrap());
    let began = Instant::now();
    let mut moments = 0..;
    let panels = loop {
        live_on(&world, moments.next().unwrap());
        let second = began.elapsed().as_secs();
        let panels = panels(&world, second);
        let (full, empty): (Vec<_>, Vec<_>) = panels.iter().partition(|panel| {
            let data = panel["data"].as_array().unwrap();
            !data.is_empty() && !data.contains(&json!([]))
        });
        let denied = panels[0]["data"][0].as_array().unwrap().iter();
        let mut denied = denied.flat_map(|series| series["values"].as_array().unwrap());
        if !full.is_empty()
            && empty.is_empty()
            && denied.any(|value| value[1].as_str().unwrap().parse::<f64>().unwrap() > 0.0)
            && second >= seconds
        {
            break panels;
        }
        let empty: Vec<_> = empty.iter().map(|panel| &panel["title"]).collect();
        assert!(
            second < 60 + seconds,
            "no data: {empty:?}, or nothing denied\n{}",
            world.log()
        );
    };
    let file = target().join("dashboard.json");
    fs::write(file, json!(panels).to_string()).unwrap();
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

/// Ends when it is dropped.
struct Prometheus(Child);

impl Prometheus {
    fn start(world: &World) -> Self {
        fs::write(world.dir.join("prometheus.yml"), SCRAPE).unwrap();
        let mut command = world.netns.command(program("prometheus"));
        command.args([
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=prometheus",
            "--log.level=error",
        ]);
        command
            .arg(format!("--web.listen-address={SERVER}"))
            .current_dir(&world.dir);
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each panel with its `data`: for each of its queries, the series of so many seconds that have a
/// value.
fn panels(world: &World, seconds: u64) -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/chart/files/dashboard.json");
    let dashboard: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let mut panels = dashboard["panels"].as_array().unwrap().clone();
    for panel in &mut panels {
        let queries = panel["targets"].as_array().unwrap().iter();
        panel["data"] = queries
            .map(|query| series(world, query["expr"].as_str().unwrap(), seconds))
            .collect();
    }
    panels
}

fn series(world: &World, query: &str, seconds: u64) -> Value {
    let mut query = query.to_owned();
    for (variable, value) in [
        ("$node", ".*"),
        ("$__rate_interval", "5s"),
        ("$__range", "5m"),
    ] {
        query = query.replace(variable, value);
    }
    let start = jiff::Timestamp::now().as_second() - i64::try_from(seconds).unwrap();
    let mut promtool = world.netns.command(program("promtool"));
    promtool.args([
        "query",
        "range",
        "--format=json",
        "--step=1s",
        &format!("--start={start}"),
    ]);
    let output = promtool
        .args([&format!("http://{SERVER}"), &query])
        .output()
        .unwrap();
    let mut series: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| json!([]));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    let has_value = |series: &Value| {
        series["values"]
            .as_array()
            .unwrap()
            .iter()
            .any(|value| value[1] != "NaN")
    };
    series.as_array_mut().unwrap().retain(has_value);
    series
}

/// A program of Debian's package `prometheus`, which `cargo xtask setup` unpacks.
fn program(name: &str) -> PathBuf {
    let unpacked = target().join("tools/bin").join(name);
    if unpacked.exists() {
        unpacked
    } else {
        name.into()
    }
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target")
}
