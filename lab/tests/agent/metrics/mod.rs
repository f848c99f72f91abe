//! /metrics, /healthz and /readyz of the real agent, with a packet that it denies.

use super::world::World;
use epguard_lab::process;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

const USER_AGENT: &str = concat!("epguard/", env!("CARGO_PKG_VERSION"), " (linux/");
const METRICS: &str = "127.0.0.1:9467";
const HEALTH: &str = "127.0.0.1:9468";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn metrics_show_a_denied_packet_the_view_and_the_maps() {
    let mut world = World::new("metrics");
    world.server.faults(|faults| faults.hang = true);
    let short = ["--max-view-age", "10", "--lease", "10"];
    world.start(
        &[
            &short[..],
            &["--metrics-listen", METRICS, "--health-listen", HEALTH],
        ]
        .concat(),
    );
    world.until("started", |_| true);
    assert_eq!(get(&world, HEALTH, "/healthz"), (200, "ok\n".into()));
    let (code, checks) = get(&world, HEALTH, "/readyz");
    assert_eq!(code, 503, "{checks}");
    assert!(
        checks.contains("[-]sync failed: not listed yet: pods, endpointslices, "),
        "{checks}"
    );

    world.deny();
    let (code, checks) = get(&world, HEALTH, "/readyz");
    assert_eq!(
        (code, checks.as_str()),
        (200, "[+]sync ok\n[+]hooks ok\n[+]lease ok\n")
    );
    world.connect_to_the_service();
    let (code, text) = get(&world, METRICS, "/metrics");
    assert_eq!(code, 200, "{text}");
    let seen = masked(&text);
    let expected = include_str!("expected.txt");
    assert_eq!(seen, expected, "{seen}");
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    let sentence = format!("A node at rest makes {series} series");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let page = fs::read_to_string(page).unwrap().replace('\n', " ");
    assert!(
        page.contains(&sentence),
        "docs/metrics.md lacks: {sentence}"
    );
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3,*/*;q=0.1";
    let answer = accepted(&world, prometheus);
    assert!(
        answer.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{answer}"
    );
    assert!(answer.ends_with("\n# EOF\n"), "{answer}");
    let answer = accepted(&world, "*/*");
    assert!(
        answer.contains("content-type: text/plain; version=0.0.4"),
        "{answer}"
    );

    world.server.faults(|faults| faults.outage = true);
    world.until("past the lease", |status| status.lease_ms < 0);
    let (code, checks) = get(&world, HEALTH, "/readyz");
    assert_eq!(code, 503);
    assert!(
        checks.contains("[-]lease failed: the view is too old (10 s)"),
        "{checks}"
    );
    for (listen, path) in [
        (METRICS, "/healthz"),
        (HEALTH, "/metrics"),
        (HEALTH, "/other"),
    ] {
        assert_eq!(get(&world, listen, path).0, 404, "{path}");
    }
    let agents = world
        .server
        .api
        .audit
        .requests()
        .into_iter()
        .map(|request| request.user_agent);
    let unnamed: Vec<String> = agents
        .filter(|agent| !agent.starts_with(USER_AGENT))
        .collect();
    assert!(unnamed.is_empty(), "{unnamed:?}");
}

fn get(world: &World, listen: &str, path: &str) -> (u16, String) {
    world.netns.io(|| process::get(listen, path)).unwrap()
}

/// The whole answer to a client that accepts this.
fn accepted(world: &World, accept: &str) -> String {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {METRICS}\r\nAccept: {accept}\r\n\r\n");
    let exchange = || -> io::Result<String> {
        let mut stream = TcpStream::connect(METRICS)?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    world.netns.io(exchange).unwrap()
}

/// The samples that are not 0, without values that are times or depend on them.
fn masked(text: &str) -> String {
    let samples = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '));
    samples
        .filter_map(|(name, value)| match value {
            value if depends_on_time(name, value) => Some(format!("{name} *\n")),
            "0" => None,
            value => Some(format!("{name} {value}\n")),
        })
        .collect()
}

fn depends_on_time(metric: &str, value: &str) -> bool {
    metric.contains("_seconds")
        || metric.starts_with("process_")
        || metric == "epguard_stale_services"
        || (metric == "epguard_api_requests_total" && value != "0")
}
