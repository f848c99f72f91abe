//! The real agent on a node of its own, against an embedded API server. Needs root.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its own part; a test panics"
)]

pub mod stale;

use epguard::shared::status::{self, Status};
use epguard_lab::api::{ApiServer, Store};
use epguard_lab::net::NetNs;
use epguard_lab::scenario::process;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A node with one veth pair, an API server, and the agent once started. Dropping it ends the agent.
pub struct World {
    pub netns: NetNs,
    pub store: Store,
    pub server: ApiServer,
    pub dir: PathBuf,
    agent: Option<Child>,
}

impl World {
    pub fn new(name: &str) -> Self {
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

    /// Starts `epguard agent` with more options; in enforce, unless they say `--mode`.
    pub fn start(&mut self, kubeconfig: &str, options: &[&str]) {
        self.start_as(kubeconfig, options, |_| {});
    }

    /// The same with a process that is prepared in some way.
    pub fn start_as(&mut self, kubeconfig: &str, options: &[&str], prepare: impl FnOnce(&mut Command)) {
        std::fs::write(self.dir.join("kubeconfig"), kubeconfig).unwrap();
        let mut command = self.epguard();
        command.args([
            "agent",
            "--node-name",
            "n",
            "--reason-mode",
            "retired-backend=enforce",
            "--kubeconfig",
        ]);
        command
            .arg(self.dir.join("kubeconfig"))
            .arg("--run-dir")
            .arg(&self.dir);
        command.arg("--pin-dir").arg(self.dir.join("bpf/epguard"));
        if !options.contains(&"--mode") {
            command.args(["--mode", "enforce"]);
        }
        command.args(options);
        command.stderr(std::fs::File::create(self.dir.join("log")).unwrap());
        prepare(&mut command);
        self.agent = Some(command.spawn().unwrap());
    }

    /// The binary, on the node.
    pub fn epguard(&self) -> Command {
        self.netns.command(process::epguard().unwrap())
    }

    /// The agent's process id.
    pub fn pid(&self) -> u32 {
        self.agent.as_ref().unwrap().id()
    }

    /// Kills the agent; its hooks and maps stay.
    pub fn stop(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// What the agent says when it ends by itself.
    pub fn outcome(&mut self) -> String {
        let deadline = Instant::now() + Duration::from_mins(1);
        while self.agent.as_mut().unwrap().try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the agent goes on: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.log()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap()
    }

    pub fn status(&self) -> Status {
        status::read(&self.dir).unwrap()
    }

    /// The status, once it is as described; while the agent lives.
    pub fn until(&mut self, description: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        let deadline = Instant::now() + Duration::from_mins(1);
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
pub fn dead_pod(name: &str, ip: &str) -> Value {
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

pub fn slice(name: &str, service: &str, address: &str, uid: &Value, ports: &Value) -> Value {
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": service}},
        "endpoints": [{"addresses": [address], "targetRef": {"kind": "Pod", "name": "a", "uid": uid}}], "ports": ports,
    })
}

pub fn service(name: &str, vip: &str) -> Value {
    json!({
        "kind": "Service", "apiVersion": "v1", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"clusterIP": vip, "selector": {"app": "web"}, "ports": [{"port": 80}, {"port": -7}, {"port": 70000}]},
    })
}
