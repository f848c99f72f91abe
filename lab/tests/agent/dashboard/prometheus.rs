//! A Prometheus, and the panels of the dashboard asked of it.

use epguard_lab::net::NetNs;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// What a Prometheus is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// Its end, in seconds since 1970.
    pub end: i64,
    /// How far back from there.
    pub seconds: u64,
    /// Between two values.
    pub step: u64,
    /// Window of rates, in Grafana's words `$__rate_interval`.
    pub window: &'static str,
}

/// A server. It ends when it is dropped.
pub struct Prometheus<'a> {
    server: Child,
    address: SocketAddr,
    netns: Option<&'a NetNs>,
}

impl<'a> Prometheus<'a> {
    /// Starts one in a folder with its configuration, on this node or in the namespace.
    pub fn start(
        folder: &Path,
        config: &str,
        address: SocketAddr,
        netns: Option<&'a NetNs>,
    ) -> Self {
        fs::write(folder.join("prometheus.yml"), config).unwrap();
        let mut command = command("prometheus", netns);
        command.args([
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=prometheus",
            "--log.level=error",
        ]);
        command
            .arg(format!("--web.listen-address={address}"))
            .current_dir(folder);
        let server = command.stdin(Stdio::null()).spawn().unwrap();
        Self {
            server,
            address,
            netns,
        }
    }

    /// Waits until it answers.
    pub fn wait(&self) {
        let began = Instant::now();
        let url = format!("http://{}", self.address);
        while self.promtool(&["query", "instant", &url, "1"]).is_err() {
            assert!(
                began.elapsed() < Duration::from_mins(1),
                "{url} does not answer"
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Each panel of the dashboard with its `data`: for each of its queries, the series that have a
    /// value.
    pub fn panels(&self, range: Range) -> Vec<Value> {
        let mut panels = dashboard()["panels"].as_array().unwrap().clone();
        for panel in &mut panels {
            let Some(queries) = panel["targets"].as_array() else {
                continue;
            };
            panel["data"] = queries
                .iter()
                .map(|query| self.query(query["expr"].as_str().unwrap(), range))
                .collect();
        }
        panels
    }

    fn query(&self, query: &str, range: Range) -> Value {
        let mut query = query.to_owned();
        for (variable, value) in [
            ("$cluster", ".*"),
            ("$job", ".*"),
            ("$node", ".*"),
            ("$__rate_interval", range.window),
            ("$__range", "5m"),
        ] {
            query = query.replace(variable, value);
        }
        let start = range.end - i64::try_from(range.seconds).unwrap();
        let answer = self.promtool(&[
            "query",
            "range",
            "--format=json",
            &format!("--step={}s", range.step),
            &format!("--start={start}"),
            &format!("--end={}", range.end),
            &format!("http://{}", self.address),
            &query,
        ]);
        let text = answer.unwrap_or_else(|error| panic!("{query}: {error}"));
        let mut series: Value = serde_json::from_str(&text).unwrap();
        if series.is_null() {
            series = json!([]);
        }
        series.as_array_mut().unwrap().retain(has_value);
        series
    }

    /// What promtool prints, and what it prints if it fails.
    fn promtool(&self, arguments: &[&str]) -> Result<String, String> {
        let mut promtool = command("promtool", self.netns);
        let output = promtool.args(arguments).output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn has_value(series: &Value) -> bool {
    let values = series["values"].as_array().unwrap();
    values.iter().any(|value| value[1] != "NaN")
}

/// The file of the dashboard.
fn dashboard() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/chart/files/dashboard.json");
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// A program of Debian's package `prometheus`, which `cargo xtask setup` unpacks.
pub fn command(name: &str, netns: Option<&NetNs>) -> Command {
    let unpacked = target().join("tools/bin").join(name);
    let program: PathBuf = if unpacked.exists() {
        unpacked
    } else {
        name.into()
    };
    netns.map_or_else(|| Command::new(&program), |netns| netns.command(&program))
}

/// `target/`.
pub fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target")
}
