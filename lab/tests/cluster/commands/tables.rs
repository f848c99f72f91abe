//! What is special about some commands of the pages.

/// Commands that no test here runs, and why. `*` at the end stands for any arguments, or none.
pub(crate) const NOT_RUN: &[(&str, &str)] = &[
    (
        "cargo test *",
        "`cargo xtask test` runs these tests; with the pages' variables they take minutes or hours",
    ),
    ("cargo build *", "a Mac builds for macOS"),
    ("taskset -c 1 cargo test *", "the same"),
    ("cargo xtask bench *", "takes minutes"),
    (
        "cargo xtask demo",
        "`every_claim_holds_and_the_output_is_plain_text` plays the demo",
    ),
    (
        "cargo xtask image *",
        "takes minutes and needs buildah; a file stands in its place",
    ),
    (
        "cargo xtask kernel",
        "boots an emulated machine with a kernel that is not here",
    ),
    (
        "cargo xtask mutate *",
        "builds and tests everything many times",
    ),
    ("cargo xtask release *", "takes an hour and needs a commit"),
    (
        "cargo xtask scenario *",
        "`cargo xtask test` plays the stories",
    ),
    ("cargo xtask test", "runs this test"),
    (
        "bpftool cgroup tree",
        "the name of a command; a block has it with its directory",
    ),
    ("bpftool map dump pinned ...", "the name of a command"),
    (
        "conntrack -D",
        "the name of a command; its arguments are in another command's output",
    ),
    ("cosign *", "needs a registry and an identity"),
    ("ctr *", "needs containerd"),
    ("curl *", "needs a release"),
    ("export *", "its variables are for cosign"),
    ("gh *", "needs a release"),
    ("tar *", "needs a release"),
    (
        "tc qdisc del dev *",
        "no interface of the lab has an ingress qdisc",
    ),
    ("install -D *", "needs RKE2"),
    ("install kubectl-epguard *", "needs a release"),
    ("sha256sum *", "needs the files of a release"),
    ("skopeo *", "needs a registry"),
    ("k3s *", "needs k3s"),
    (HELM_INSTALL, "it has run before all others"),
    (
        "helm install *",
        "`kubectl_apply_and_helm_give_the_same_objects`, by Helm's engine",
    ),
    (
        "helm upgrade *",
        "`a_release_is_upgraded_rolled_back_and_uninstalled_without_a_rest`, by Helm's engine",
    ),
    ("helm rollback *", "the same"),
    ("helm uninstall *", "the same"),
    (
        "helm test *",
        "`a_check_has_the_documented_rights_while_it_runs_and_its_pod_is_no_agent`, by Helm's engine",
    ),
    ("helm -n epguard list", "no release of Helm is there"),
    (
        "helm template *",
        "`the_files_for_kubectl_are_what_helm_renders`, by Helm's engine",
    ),
    ("docker *", "needs a container runtime"),
    ("kind *", "needs kind and a container runtime"),
    ("epguard action", "the name of a command"),
    ("epguard why", "the name of a command"),
    ("epguard ...", "stands for any verb"),
    ("epguard agent --action *", "the DaemonSet starts the agent"),
    ("kubectl epguard", "the name of the program"),
    (
        "kubectl epguard check *",
        "the tests of `check` run it beside kubelets that start its pods",
    ),
    ("kubectl epguard ...", "stands for any verb"),
    (
        "kubectl auth can-i *",
        "the lab's API server has one user, and reviews no rights",
    ),
    (
        "kubectl create namespace *",
        "the lab's API server takes no protobuf",
    ),
    ("kubectl -n epguard create quota *", "it has no quotas"),
    (
        "kubectl -n epguard delete pod POD",
        "the page goes on with the agent that it has",
    ),
    ("kubectl exec", "the name of a command"),
    ("kubectl krew *", "needs Krew and a release"),
];

/// How the README installs the agent.
pub(crate) const HELM_INSTALL: &str =
    "helm install epguard deploy/chart -n epguard --create-namespace";

/// Exit codes other than 0, and why.
pub(crate) const EXIT_CODES: [(&str, &[i32], &str); 9] = [
    ("epguard audit", &[1], "flows lead to the dead pod"),
    ("kubectl epguard audit", &[1], "the same"),
    ("kubectl epguard lint *", &[1], "a slice lists the dead pod"),
    (
        "kubectl -n epguard logs POD | grep skipped",
        &[1],
        "the agent could read all objects",
    ),
    (
        "kubectl -n epguard logs POD | grep 'wrong deny'",
        &[1],
        "no denial was wrong",
    ),
    (
        "kubectl get pods -A -o wide | grep IP",
        &[1],
        "the lab's API server sends no tables, so kubectl shows no IP",
    ),
    (
        "bpftool prog show | grep epguard",
        &[0, 1],
        "1 unless another agent runs on this machine",
    ),
    ("ls /sys/fs/bpf/epguard", &[2], "no such directory"),
    (
        "sysctl -w net.ipv4.vs.conntrack=1",
        &[0, 1],
        "1 where no IPVS is loaded",
    ),
];

/// What has to run before a command.
pub(crate) const BEFORE: [(&str, &str); 1] = [(
    "kubectl -n epguard rollout undo *",
    "kubectl -n epguard set env daemonset/epguard DETACH_ON_EXIT=false",
)];

/// Texts in the output.
pub(crate) const SHOWN: [(&str, &str); 15] = [
    (
        "kubectl -n epguard rollout status daemonset/epguard",
        "successfully rolled out",
    ),
    ("epguard status", "tcx, place 1"),
    ("kubectl epguard status", "all is well"),
    ("kubectl epguard status -o wide", "epguard-node-a-1"),
    ("epguard dump", "dead-backend"),
    ("kubectl epguard why 10.244.1.10", "(dead-backend)"),
    ("epguard audit", "shop/web"),
    ("kubectl epguard audit", "shop/web"),
    ("kubectl epguard lint", "terminal-pod"),
    (
        "kubectl -n shop describe service web",
        "StaleEndpointObserved",
    ),
    ("kubectl get events *", "web."),
    ("kubectl -n epguard logs POD --previous", "hooked"),
    (
        "epguard status -o json | jq .status.watches",
        "endpointslices",
    ),
    (
        "bpftool map dump pinned /sys/fs/bpf/epguard/v3/DENIED",
        "key",
    ),
    ("epguard detach", "nothing to remove"),
];

/// What the mode of the node becomes soon.
pub(crate) const BECOMES: [(&str, &str); 2] = [
    ("kubectl epguard mode observe", "observe (by mode policy)"),
    (
        "kubectl label node worker-1 epguard.io/canary=true",
        "enforce (by mode policy, canary)",
    ),
];

/// Commands that follow until they are ended, and a text that each prints.
pub(crate) const FOLLOWING: [(&str, &str); 1] = [("drops -f", "shop/a was meant, nobody is there")];

/// Whether an entry stands for a command, which may set variables first.
pub(crate) fn is_meant(entry: &str, command: &str) -> bool {
    let words = command.split(' ').skip_while(|word: &&str| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
    });
    let command = words.collect::<Vec<_>>().join(" ");
    entry
        .strip_suffix(" *")
        .map_or(command == entry, |beginning| {
            let rest = command.strip_prefix(beginning);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        })
}
