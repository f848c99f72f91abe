//! The cluster and the shell that the commands run in.

use std::time::Instant;

use epguard_lab::scenario::cluster::Cluster;
use epguard_lab::scenario::format::PodEvent;

use super::pages::Command;
use super::tables::{BECOMES, BEFORE, EXIT_CODES, FOLLOWING, HELM_INSTALL, SHOWN, is_meant};
use crate::quickstart::kubelet::{self, Kubelet};
use crate::quickstart::shell::Shell;
use crate::quickstart::{calls, cluster};

const ROLLED_OUT: &str = "kubectl -n epguard rollout status daemonset/epguard";
const STATUS: &str = "kubectl epguard status --node node-a";

pub(crate) struct Rig {
    cluster: Cluster,
    kubelet: Kubelet,
    shell: Shell,
    began: Instant,
    ran: u32,
    wrong: Vec<String>,
    modes_are_set: bool,
}

impl Rig {
    /// Installs the agent as the README does, and waits until it has observed a call to the dead
    /// pod.
    pub(crate) fn start() -> Self {
        let cluster = cluster();
        let kubelet = Kubelet::new(&cluster);
        kubelet::runs_commands(&cluster, &[&kubelet]);
        kubelet::shows_logs(&cluster);
        let shell = Shell::start(&cluster);
        let mut rig = Self {
            cluster,
            kubelet,
            shell,
            began: Instant::now(),
            ran: 0,
            wrong: Vec::new(),
            modes_are_set: false,
        };
        rig.must(HELM_INSTALL);
        rig.must(ROLLED_OUT);
        rig.must("install target/image/kubectl-epguard /usr/local/bin");
        for (command, text) in [
            ("epguard lint", "0 errors"),
            ("kubectl epguard status", "all is well"),
            (STATUS, "eth0"),
        ] {
            rig.await_output(command, text);
        }
        rig.cluster.pod_event("A", PodEvent::Fails).unwrap();
        rig.await_output("epguard dump", "dead-backend");
        calls(&rig.cluster);
        rig.await_output("kubectl get events -A", "web.");
        rig
    }

    /// Runs a command, and notes it if its exit code or its output is not the documented one.
    pub(crate) fn run(&mut self, command: &Command) {
        let of = |entry: &str| is_meant(entry, &command.text);
        for (_, first) in BEFORE.iter().filter(|(entry, _)| of(entry)) {
            self.must(first);
            self.must(ROLLED_OUT);
        }
        let text = self.filled_in(&command.text);
        let began = Instant::now();
        let pod = self.kubelet.pod().to_owned();
        let following = FOLLOWING.iter().find(|(part, _)| text.contains(part));
        let (code, output) = match following {
            Some((_, text_shown)) => (0, self.run_until(&text, text_shown)),
            None => self.exit_code(&text),
        };
        self.ran += 1;
        println!("{:?} {}: {text}: {code}", began.elapsed(), command.page);
        let expected = EXIT_CODES.iter().find(|(entry, ..)| of(entry));
        let expected = expected.map_or(&[0][..], |(_, codes, _)| codes);
        let mut shown = SHOWN.iter().filter(|(entry, _)| of(entry));
        let is_shown = shown.all(|(_, text)| output.contains(text));
        let has_unknown_field = text.contains("jq") && output.lines().any(|line| line == "null");
        if !expected.contains(&code) || !is_shown || has_unknown_field {
            let Command { page, section, .. } = command;
            self.wrong.push(format!(
                "{page}, {section}: {text}: exit code {code}: {output}"
            ));
        }
        for (_, mode) in BECOMES.iter().filter(|(entry, _)| of(entry)) {
            self.await_output(STATUS, mode);
            if mode.starts_with("enforce") {
                // Commands of another page may have set another action.
                self.must("epguard action drop");
                self.run_until(
                    "kubectl epguard drops -f",
                    "dropped dead-backend shop/web -> ",
                );
            }
        }
        self.modes_are_set |= text.contains(" mode ") || text.contains(" action ");
        self.kubelet.step(&self.cluster);
        if self.kubelet.pod() != pod && !self.kubelet.pod().is_empty() {
            self.must(ROLLED_OUT);
        }
    }

    /// After commands that switch modes or actions: those of the `DaemonSet` hold again.
    pub(crate) fn reset_modes(&mut self) {
        if !std::mem::take(&mut self.modes_are_set) {
            return;
        }
        self.must("kubectl label node node-a epguard.io/canary-");
        self.must("kubectl -n epguard delete configmap epguard --ignore-not-found");
        self.await_output(STATUS, "(by flags)");
        self.must("kubectl epguard mode observe --yes");
        self.await_output(STATUS, "observe (by mode policy)");
        self.must("kubectl -n epguard delete configmap epguard");
        self.await_output(STATUS, "observe (by flags)");
    }

    /// The commands whose exit code was another one.
    pub(crate) fn end(self) -> Vec<String> {
        println!("{} commands in {:?}", self.ran, self.began.elapsed());
        self.wrong
    }

    fn must(&mut self, command: &str) {
        let (code, output) = self.exit_code(command);
        assert_eq!(code, 0, "{command}: {output}");
    }

    fn await_output(&mut self, command: &str, text: &str) {
        let cluster = &self.cluster;
        let kubelet = &mut self.kubelet;
        self.shell
            .run_until_it_says(text, command, || kubelet.step(cluster));
    }

    fn run_until(&mut self, command: &str, text: &str) -> String {
        let cluster = &self.cluster;
        let kubelet = &mut self.kubelet;
        self.shell.run_until(command, text, || {
            kubelet.step(cluster);
            calls(cluster);
        })
    }

    fn exit_code(&mut self, command: &str) -> (i32, String) {
        let cluster = &self.cluster;
        let kubelet = &mut self.kubelet;
        self.shell.exit_code(command, || kubelet.step(cluster))
    }

    /// With this cluster's names in place of those of the pages.
    fn filled_in(&self, command: &str) -> String {
        let ip = |pod| self.cluster.names.pod(pod).unwrap().ip.to_string();
        let dead = ip("A");
        let client = ip("client");
        let node = &self.cluster.topology.node("node-a").unwrap().netns;
        let uplink = node
            .run(|| nix::net::if_::if_nametoindex("eth0"))
            .unwrap()
            .unwrap();
        let link = format!("{uplink}-to");
        let mut filled = command.to_owned();
        for (name, value) in [
            ("10.244.1.10", &*dead),
            ("10.244.2.5", &*client),
            ("worker-1", "node-a"),
            ("12-to", &*link),
        ] {
            filled = filled.replace(name, value);
        }
        let words = filled.split(' ').map(|word| match word {
            "POD" => self.kubelet.pod().to_owned(),
            "IFACE" | "NAME" => "eth0".to_owned(),
            "NAMESPACE/NAME" => "shop/web".to_owned(),
            "REASON" => "reused".to_owned(),
            "IP" => dead.clone(),
            "IP:PORT" => format!("{dead}:8080"),
            word => word.to_owned(),
        });
        let filled = words.collect::<Vec<_>>().join(" ");
        // There is no terminal to ask at.
        let switches = ["mode ", "action ", "breaker --release"];
        let verb = filled.strip_prefix("kubectl epguard ").unwrap_or_default();
        let asks = switches.iter().any(|switch| verb.starts_with(switch));
        if asks && !filled.contains(" -y") {
            filled + " --yes"
        } else {
            filled
        }
    }
}
