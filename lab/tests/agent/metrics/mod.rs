//! /metrics, /healthz and /readyz of the real agent, with a packet that it denies.

use super::world::World;
use epguard_lab::process;

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
    metric.contains("_seconds") || (metric == "epguard_api_requests_total" && value != "0")
}
