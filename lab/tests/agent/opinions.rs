//! Requests of the real agent after most pods of one Service have ended at once.

use super::world::{World, dead_pod, service, slice};
use epguard_lab::api::{Kind, Request};
use serde_json::{Value, json};

/// As large as the objects of a real kubelet.
const PADDING: usize = 5_000;

/// The pod of a number, running or ended.
fn job(number: u8, app: &str, ended: bool) -> Value {
    let mut pod = dead_pod(&format!("{app}-{number}"), &format!("10.244.1.{number}"));
    pod["metadata"]["labels"]["app"] = app.into();
    pod["metadata"]["annotations"] = json!({"padding": "x".repeat(PADDING)});
    if !ended {
        pod["status"]["phase"] = "Running".into();
        pod["status"]["conditions"][0]["status"] = "True".into();
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        pod["status"]["containerStatuses"][0]["state"] = running;
    }
    pod
}

/// Four running pods of a Service among fifty others.
fn running() -> World {
    let mut world = World::new("opinions");
    world.store.ensure_namespace("shop").unwrap();
    world.gets_range("10.244.1.0/24");
    world.store.apply(service("web", "10.96.0.1")).unwrap();
    for number in 1..=4 {
        let pod = world.store.apply(job(number, "web", false)).unwrap();
        let (name, ip) = (format!("web-{number}"), format!("10.244.1.{number}"));
        let listed = slice(&name, "web", &ip, &pod["metadata"]["uid"], &json!([{"port": 8080}]));
        world.store.apply(listed).unwrap();
    }
    for number in 100..150 {
        world.store.apply(job(number, "other", false)).unwrap();
    }
    world.start(&[]);
    world.until("synced", |status| status.synced);
    world
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn three_finished_jobs_of_four_take_two_narrow_lists() {
    let mut world = running();
    world.server.api.audit.clear();
    for number in 1..=3 {
        world.store.apply(job(number, "web", true)).unwrap();
    }
    world.until("holding a denial", |status| !status.breaker.is_empty());
    world.until("denying all three", |status| {
        status.breaker.is_empty() && !status.services.is_empty() && status.lease_ms > 0
    });
    let requests = world.server.api.audit.requests();
    let by = |is: &dyn Fn(&Request) -> bool| requests.iter().filter(|request| is(request)).count();
    let narrow = by(&|request| request.query.contains("labelSelector"));
    let probes = by(&|request| request.query.contains("timeoutSeconds=3"));
    let of_web = |object: &&Value| {
        let labels = &object["metadata"]["labels"];
        labels["app"] == "web" || labels["kubernetes.io/service-name"] == "web"
    };
    let listed = [Kind::Pod, Kind::EndpointSlice].map(|kind| world.store.list(kind));
    let octets: usize = listed.iter().flatten().filter(of_web).map(|object| object.to_string().len()).sum();
    println!(
        "{narrow} narrow lists of {octets} octets and {probes} short watches, of {} requests: {requests:#?}",
        requests.len()
    );
    assert_eq!(narrow, 2, "{requests:#?}");
    assert!(octets <= 100_000, "{octets}");
    let whole = by(&|request| request.path == "/api/v1/pods" && !request.query.contains("timeoutSeconds=3"));
    assert_eq!(whole, 0, "{requests:#?}");
}
