//! The real agent on a node of its own, against an embedded API server. Needs root.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the benchmark uses its own part, and may panic"
)]

use epguard::shared::status::{self, Status};
use epguard_lab::agent::{AgentProcess, AgentSetup, CAPABILITIES};
use epguard_lab::api::{ApiServer, Kind, ObjectRef, Store};
use epguard_lab::net::NetNs;
use epguard_lab::process;
use epguard_lab::proxy::{Proxy, ProxyOptions, service_rules};
use epguard_lab::workdir::Workdir;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

/// A node with one veth pair, an API server, and the agent once started. Dropping it ends the
/// agent.
pub struct World {
    // Dropped first: the agent before its namespace and directory.
    agent: Option<AgentProcess>,
    pub netns: NetNs,
    pub store: Store,
    pub server: ApiServer,
    /// The agent's run directory.
    pub dir: PathBuf,
    /// What the agent is started with.
    pub capabilities: Vec<u32>,
    workdir: Workdir,
}

impl World {
    pub fn new(name: &str) -> Self {
        let netns = NetNs::new(name).unwrap();
        netns
            .ip(&["link set lo up", "link add va type veth peer name vb"])
            .unwrap();
        let workdir = Workdir::new().unwrap();
        let store = Store::default();
        // The end of a pod on a Node that no list has shown proves nothing.
        let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}, "spec": {}, "status": {}});
        store.apply(node).unwrap();
        let listener = netns
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .unwrap();
        let server = ApiServer::start(listener, store.clone()).unwrap();
        let dir = workdir.path.clone();
        let capabilities = CAPABILITIES.to_vec();
        Self {
            agent: None,
            netns,
            store,
            server,
            dir,
            capabilities,
            workdir,
        }
    }

    /// A node with an agent, started with these options, that has seen all objects.
    pub fn synced(name: &str, options: &[&str]) -> Self {
        let mut world = Self::new(name);
        world.start(options);
        world.until("synced", |status| status.synced);
        world
    }

    /// Starts `epguard agent` with more options; in enforce mode, unless they contain `--mode`.
    pub fn start(&mut self, options: &[&str]) {
        self.start_as(&self.server.kubeconfig(), options, |_| {});
    }

    /// As [`World::start`], with another kubeconfig and a prepared process.
    pub fn start_as(
        &mut self,
        kubeconfig: &str,
        options: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) {
        let setup = AgentSetup {
            node: "n",
            kubeconfig,
            run_dir: &self.dir,
            pin_dir: &self.workdir.pins().join("epguard"),
        };
        let mut command = self.epguard();
        command.args(setup.arguments().unwrap());
        command.args(["--reason-mode", "retired-backend=enforce"]);
        if !options.contains(&"--mode") {
            command.args(["--mode", "enforce"]);
        }
        command.args(options);
        // The log must be that of this agent alone.
        let _ = std::fs::remove_file(self.dir.join("agent.log"));
        prepare(&mut command);
        self.agent =
            Some(AgentProcess::start_with(&self.capabilities, command, &self.dir).unwrap());
    }

    /// Gives the node a range of pod IPs.
    pub fn gets_range(&self, range: &str) {
        let id = ObjectRef::new(Kind::Node, "", "n");
        self.store
            .patch(&id, &json!({"spec": {"podCIDRs": [range]}}))
            .unwrap();
    }

    /// A dead pod that a Service still lists, behind an interface of the node, with the routes and
    /// rules that lead a packet there.
    pub fn deny(&mut self) {
        let lines = [
            "address add 10.244.1.1/24 dev va",
            "link set va up",
            "link set vb up",
            "route add default dev va",
            "neigh add 10.244.1.10 lladdr 02:00:00:00:00:01 dev va",
        ];
        self.netns.ip(&lines).unwrap();
        self.store.ensure_namespace("shop").unwrap();
        self.gets_range("10.244.1.0/24");
        let mut web = service("web", "10.96.0.1");
        web["spec"]["ports"] = json!([{"port": 80, "targetPort": 8080}]);
        self.store.apply(web).unwrap();
        self.list_dead("a", "10.244.1.10", "web", "TCP");
        self.program_proxy();
        self.server.faults(|faults| faults.hang = false);
        self.until("denying", |status| {
            !status.services.is_empty() && status.lease_ms > 0 && status.breaker.is_empty()
        });
    }

    /// Sends one SYN to the Service of [`World::deny`]; the kernel would repeat it after a second.
    pub fn connect_to_the_service(&self) {
        let service = SocketAddr::from(([10, 96, 0, 1], 80));
        assert!(
            self.netns
                .run(|| TcpStream::connect_timeout(&service, Duration::from_millis(200)))
                .unwrap()
                .is_err()
        );
    }

    /// Makes a dead pod and a slice in which the Service still lists it, on port 8080. Returns the
    /// pod.
    pub fn list_dead(&self, name: &str, ip: &str, of: &str, protocol: &str) -> Value {
        let dead = self.store.apply(dead_pod(name, ip)).unwrap();
        let ports = json!([{"port": 8080, "protocol": protocol}]);
        let listed = slice(
            &format!("{of}-{name}"),
            of,
            ip,
            &dead["metadata"]["uid"],
            &ports,
        );
        self.store.apply(listed).unwrap();
        dead
    }

    /// Programs kube-proxy's rules for the Services and slices that the API has now.
    pub fn program_proxy(&self) {
        let [services, slices] =
            [Kind::Service, Kind::EndpointSlice].map(|kind| self.store.list(kind));
        let proxy = Proxy::new(&self.netns, ProxyOptions::default());
        proxy
            .program(&service_rules(&services, &slices, "n"))
            .unwrap();
    }

    /// The output of the binary with these words, beside the agent.
    pub fn run(&self, words: &[&str]) -> Output {
        let mut command = self.epguard();
        command
            .args(words)
            .arg("--run-dir")
            .arg(&self.dir)
            .output()
            .unwrap()
    }

    /// A command that runs the binary on the node.
    pub fn epguard(&self) -> Command {
        self.netns.command(process::epguard().unwrap())
    }

    /// The agent's process id.
    pub fn pid(&self) -> u32 {
        self.agent.as_ref().unwrap().pid()
    }

    /// Kills the agent; its hooks and maps stay.
    pub fn stop(&mut self) {
        self.agent = None;
    }

    /// Exit status and log of an agent that ends by itself.
    pub fn outcome(&mut self) -> String {
        self.agent.as_mut().unwrap().await_end().unwrap();
        self.log()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("agent.log")).unwrap()
    }

    /// Waits until the agent has logged it.
    pub fn await_log(&mut self, words: &str) {
        let log = self.dir.join("agent.log");
        self.until(words, |_| {
            std::fs::read_to_string(&log).unwrap().contains(words)
        });
    }

    pub fn status(&self) -> Status {
        status::current(&self.dir).unwrap()
    }

    /// The status, once `wanted` holds. Panics if the agent ends before.
    pub fn until(&mut self, description: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        let agent = self.agent.as_mut().unwrap();
        let failing = format!("is not {description}");
        agent
            .until(&failing, |status| (!wanted(status)).then(String::new))
            .unwrap_or_else(|error| {
                let seen = status::current(&self.dir);
                panic!("{error:#}: {seen:?}\n{}", self.log())
            })
    }
}

/// A failed pod, as a 1.36 kubelet reports it.
pub fn dead_pod(name: &str, ip: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}, "managedFields": [
            {"manager": "kubelet", "operation": "Update", "subresource": "status", "apiVersion": "v1",
             "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {
                "f:phase": {}, "f:podIP": {}, "f:conditions": {"k:{\"type\":\"PodReadyToStartContainers\"}": {}}}}}]},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
        "status": {"phase": "Failed", "podIPs": [{"ip": ip}],
            "conditions": [{"type": "PodReadyToStartContainers", "status": "False"}],
            "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]},
    })
}

/// A slice of the `EndpointSlice` controller.
pub fn slice(name: &str, service: &str, address: &str, uid: &Value, ports: &Value) -> Value {
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": "shop", "labels": {
            "kubernetes.io/service-name": service,
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }},
        "endpoints": [{"addresses": [address], "targetRef": {"kind": "Pod", "name": "a", "uid": uid}}], "ports": ports,
    })
}

/// The object of this kind called epguard that `kubectl apply` sends.
pub fn manifest(kind: &str) -> Value {
    let all: Vec<Value> =
        serde_saphyr::from_multiple(include_str!("../../../deploy/epguard.yaml")).unwrap();
    all.into_iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == "epguard")
        .unwrap()
}

pub fn service(name: &str, vip: &str) -> Value {
    json!({
        "kind": "Service", "apiVersion": "v1", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"clusterIP": vip, "selector": {"app": "web"}, "ports": [{"port": 80}, {"port": -7}, {"port": 70000}]},
    })
}
