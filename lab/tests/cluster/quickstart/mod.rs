//! The quick start of the README and of docs/install.md, command by command: in a shell, with kubectl and the manifests
//! against an API server, and with the agent as in its `DaemonSet`.

pub(crate) mod kubelet;
pub(crate) mod shell;

use crate::markdown::parts;
use epguard_lab::scenario::cluster::Cluster;
use epguard_lab::scenario::format::{Condition, PodEvent};
use epguard_lab::scenario::variant::Variant;
use kubelet::Kubelet;
use shell::Shell;
use std::net::TcpStream;
use std::time::Duration;

/// A cluster in which one pod, `A`, runs behind a Service `shop/NAME`.
pub(crate) fn cluster(pod: &str, name: &str) -> Cluster {
    let story = format!(
        "id: t\ntitle: t\nmust: m\npods:\n  A: {{is: {pod}, ip: X, labels: {{app: {name}}}}}\n\
         services:\n  shop/{name}: {{selector: {{app: {name}}}}}\nsteps:\n  - proxy: sync\n"
    );
    let scenario = epguard_lab::scenario::parse(&story, "story").unwrap();
    let mut cluster = Cluster::new(&scenario, Variant::all(&scenario.runs).remove(0)).unwrap();
    cluster.pod_event("A", PodEvent::Starts).unwrap();
    let ready = [("A".to_owned(), Condition::Ready)].into();
    cluster.set_slice(&format!("shop/{name}"), &ready).unwrap();
    cluster.sync_proxy().unwrap();
    cluster
}

/// The client's pod calls the Service, with a short timeout.
pub(crate) fn calls(cluster: &Cluster, service: &str) {
    let vip = (cluster.names.service(service).unwrap().vip, 80).into();
    let client = cluster.topology.pod("client").unwrap();
    let _ = client.netns.run(|| TcpStream::connect_timeout(&vip, Duration::from_millis(100))).unwrap();
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs; needs kubectl"]
fn the_quick_start_has_the_results_of_the_readme() {
    let mut cluster = cluster("shop/report-1", "report");
    let x = cluster.names.pod("A").unwrap().ip.to_string();
    let mut kubelet = Kubelet::new(&cluster);
    kubelet::runs_commands(&cluster);
    let mut shell = Shell::start(&cluster);
    let readme = |section| {
        commands(section).map(|command| command.replace("worker-1", "node-a").replace("10.244.1.10", &x))
    };

    let installed: String =
        readme("Install").map(|command| shell.run(&command, || kubelet.step(&cluster))).collect();
    assert!(installed.contains("\"epguard\" successfully rolled out"), "{installed}");

    let mut first = readme("The first five minutes");
    let mut next = || first.next().unwrap();
    let checked = shell.run(&next(), || {});
    assert!(checked.contains("0 errors"), "{checked}");
    let all = shell.run_until_it_says("all is well", &next(), || {});
    let status = shell.run_until_it_says("all is well", ONE, || {});
    for place in ["eth0", "tcx, place 1"] {
        assert!(status.contains(place), "{place}: {status}");
    }
    cluster.pod_event("A", PodEvent::Fails).unwrap();
    let line = "observed dead-backend shop/report -> ";
    let follow = next();
    let drops = shell.run_until(&follow, line, || calls(&cluster, "shop/report"));
    assert!(drops.contains("shop/report-1 was meant, nobody is there"), "{drops}");
    let why = shell.run(&next(), || {});
    assert!(why.contains("(dead-backend)"), "{why}");
    assert_eq!(first.next(), None, "a command without a test");

    let mut changes = readme("Enforce");
    for mode in [
        "observe (by configmap)",
        "observe (by configmap)",
        "enforce (by configmap, canary)",
        "enforce (by configmap, canary)",
    ] {
        let change = changes.next().unwrap();
        // There is no terminal to ask at.
        let asks = change.starts_with("kubectl epguard mode");
        shell.run(&format!("{change}{}", if asks { " --yes" } else { "" }), || {});
        becomes(&mut shell, mode);
    }
    assert_eq!(changes.next(), None, "a command without a test");
    let denied = shell.run_until(&follow, "dropped dead-backend shop/report -> ", || {
        calls(&cluster, "shop/report");
    });
    println!("{installed}{checked}\n{all}\n{status}\n{why}\n{denied}");
    shell.run("kubectl -n epguard delete configmap epguard", || {});
    becomes(&mut shell, "observe (by flags)");
}

const ONE: &str = "kubectl epguard status --node node-a";

fn becomes(shell: &mut Shell, mode: &str) {
    shell.run_until_it_says(mode, ONE, || {});
}

const PAGES: &str =
    concat!(include_str!("../../../../README.md"), include_str!("../../../../docs/install.md"));

/// The commands in the blocks of a section.
fn commands(section: &str) -> impl Iterator<Item = String> {
    let lines = parts(PAGES).lines.into_iter();
    lines.filter(move |line| !line.is_span && line.section == section).map(|line| line.text)
}
