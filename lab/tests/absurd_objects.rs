//! Objects with absurd fields, a forbidden watch and a wrong token, told to the real agent: a counted skip or one line,
//! nothing is denied because of it, and what is provable beside it still is.
#![allow(clippy::unwrap_used, reason = "a test panics")]

use epguard::status::{self, Status};
use epguard_lab::api::{ApiServer, Kind, Store};
use epguard_lab::net::NetNs;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

struct World {
    netns: NetNs,
    store: Store,
    server: ApiServer,
    dir: PathBuf,
    agent: Option<Child>,
}

impl World {
    fn new(name: &str) -> Self {
        let netns = NetNs::new(name).unwrap();
        for arguments in ["link set lo up", "link add va type veth peer name vb"] {
            assert!(
                netns
                    .command("ip")
                    .args(arguments.split(' '))
                    .status()
                    .unwrap()
                    .success()
            );
        }
        let dir = std::env::temp_dir().join(format!("epguard-{name}-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("bpf")).unwrap();
        assert!(
            Command::new("mount")
                .args(["-t", "bpf", "bpf"])
                .arg(dir.join("bpf"))
                .status()
                .unwrap()
                .success()
        );
        let store = Store::new();
        let listener = netns.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let server = ApiServer::start(listener, store.clone()).unwrap();
        Self {
            netns,
            store,
            server,
            dir,
            agent: None,
        }
    }

    fn start(&mut self, kubeconfig: &str) {
        std::fs::write(self.dir.join("kubeconfig"), kubeconfig).unwrap();
        let program = std::env::current_exe()
            .unwrap()
            .ancestors()
            .nth(2)
            .unwrap()
            .join("epguard");
        let mut command = self.netns.command(program);
        command.args([
            "agent",
            "--node-name",
            "n",
            "--mode",
            "enforce",
            "--retired",
            "enforce",
            "--kubeconfig",
        ]);
        command
            .arg(self.dir.join("kubeconfig"))
            .arg("--run-dir")
            .arg(&self.dir);
        command.arg("--pin-dir").arg(self.dir.join("bpf/epguard"));
        command.stderr(std::fs::File::create(self.dir.join("log")).unwrap());
        self.agent = Some(command.spawn().unwrap());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap()
    }

    /// The status, once it is as described; while the agent lives.
    fn until(&mut self, description: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let seen = status::read(&self.dir);
            if let Ok(status) = &seen
                && wanted(status)
            {
                return status.clone();
            }
            let ended = self.agent.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the agent ended: {}", self.log());
            assert!(
                Instant::now() < deadline,
                "not {description}: {seen:?}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(agent) = &mut self.agent {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.dir.join("bpf"))
            .status();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// As a 1.36 kubelet reports a pod that has failed.
fn dead_pod(name: &str, ip: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}, "managedFields": [
            {"manager": "kubelet", "operation": "Update", "subresource": "status", "apiVersion": "v1",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:phase": {}}}}]},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
        "status": {"phase": "Failed", "podIPs": [{"ip": ip}],
            "conditions": [{"type": "PodReadyToStartContainers", "status": "False"}],
            "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]},
    })
}

fn slice(name: &str, service: &str, address: &str, uid: &Value, ports: &Value) -> Value {
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": service}},
        "endpoints": [{"addresses": [address], "targetRef": {"kind": "Pod", "name": "a", "uid": uid}}], "ports": ports,
    })
}

fn service(name: &str, vip: &str) -> Value {
    json!({
        "kind": "Service", "apiVersion": "v1", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"clusterIP": vip, "selector": {"app": "web"}, "ports": [{"port": 80}, {"port": -7}, {"port": 70000}]},
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn absurd_objects_are_skipped_and_counted_and_the_provable_one_is_denied() {
    let mut world = World::new("absurd");
    let ports = json!([{"port": 8080}]);
    world.store.ensure_namespace("shop").unwrap();
    world.store.apply(json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"},
        "spec": {"podCIDRs": ["10.244.1.0/24", "banana/99"]}, "status": {"addresses": [{"address": "banana"}]}})).unwrap();
    world.store.apply(service("web", "10.96.0.1")).unwrap();
    world.store.apply(service("odd", "banana")).unwrap();
    let dead = world.store.apply(dead_pod("a", "10.244.1.10")).unwrap();
    let uid = &dead["metadata"]["uid"];
    world
        .store
        .apply(slice("web-1", "web", "10.244.1.10", uid, &ports))
        .unwrap();
    world
        .store
        .apply(slice("web-2", "web", "banana", uid, &ports))
        .unwrap();
    world
        .store
        .apply(slice("odd-1", "odd", "10.244.1.10", &json!(""), &ports))
        .unwrap();
    let many: Vec<Value> = (1..=10_000).map(|port| json!({"port": port})).collect();
    world
        .store
        .apply(slice("odd-2", "odd", "10.244.1.10", uid, &json!(many)))
        .unwrap();
    let strange =
        json!([{"port": 0}, {"port": 70000}, {"port": -1}, {"port": 80, "protocol": "QUIC"}, {"port": null}]);
    world
        .store
        .apply(slice("odd-3", "odd", "10.244.1.10", uid, &strange))
        .unwrap();
    let mut named = slice("odd-4", "web", "example.com", uid, &ports);
    named["addressType"] = json!("FQDN");
    world.store.apply(named).unwrap();
    let mut banana = dead_pod("banana", "banana");
    banana["metadata"]["deletionTimestamp"] = json!("yesterday");
    world.store.apply(banana).unwrap();
    let mut numbers = dead_pod("numbers", "10.244.1.11");
    numbers["metadata"]["labels"] = json!({"app": 7});
    world.store.apply(numbers).unwrap();
    world.start(&world.server.kubeconfig());
    let status = world.until("synced with one pod skipped", |status| {
        status.synced && status.watches["pods"].skipped == 1
    });
    assert!(status.watches.values().all(|watch| watch.up), "{status:?}");
    let program = std::env::current_exe()
        .unwrap()
        .ancestors()
        .nth(2)
        .unwrap()
        .join("epguard");
    let mut dump = world.netns.command(program);
    dump.args(["dump", "-o", "json", "--run-dir"])
        .arg(&world.dir)
        .arg("--pin-dir")
        .arg(world.dir.join("bpf/epguard"));
    let dump: Value = serde_json::from_slice(&dump.output().unwrap().stdout).unwrap();
    let denied: Vec<_> = dump["denied"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (&row["service"], &row["ip"], &row["port"]))
        .collect();
    assert_eq!(
        denied,
        [(&json!("shop/web"), &json!("10.244.1.10"), &json!(8080))]
    );
    let log = world.log();
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(
        log.lines().filter(|line| line.contains("object skipped")).count(),
        1,
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_forbidden_watch_names_the_resource_and_the_remedy_and_nothing_is_denied() {
    let mut world = World::new("forbidden");
    world.server.faults(|faults| {
        faults.forbidden.insert(Kind::EndpointSlice);
    });
    world.start(&world.server.kubeconfig());
    let status = world.until("told that slices are forbidden", |status| {
        status.watches["endpointslices"].error.is_some() && status.watches["pods"].up
    });
    let error = status.watches["endpointslices"].error.clone().unwrap();
    assert!(
        error.contains("endpointslices") && error.contains("ClusterRole") && !error.contains('\n'),
        "{error}"
    );
    assert!(!status.synced && status.lease_ms < 0, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn a_wrong_token_is_told_for_each_watch() {
    let mut world = World::new("token");
    let mut config: Value = serde_json::from_str(&world.server.kubeconfig()).unwrap();
    config["users"][0]["user"]["token"] = json!("wrong");
    world.start(&config.to_string());
    let status = world.until("refused", |status| {
        status.watches.values().all(|watch| watch.error.is_some())
    });
    let errors: Vec<&String> = status
        .watches
        .values()
        .filter_map(|watch| watch.error.as_ref())
        .collect();
    assert!(
        errors
            .iter()
            .all(|error| error.contains("401") || error.contains("nauthorized")),
        "{errors:?}"
    );
    assert!(!status.synced);
}
