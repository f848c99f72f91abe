//! What the rendered manifests let the agent do.

use super::{object, objects, schema, text};
use clap::Parser as _;
use epguard_core::facts::{Change, Fact, Object, Visitor, Watched};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde_json::Value;

/// The object of this kind called epguard.
fn manifest(kind: &str) -> Value {
    object(&objects(&text("epguard.yaml")), kind, "epguard")
}

fn pod() -> PodSpec {
    pod_of(&manifest("DaemonSet"))
}

pub(super) fn pod_of(daemon_set: &Value) -> PodSpec {
    let daemon_set: DaemonSet = schema::read(daemon_set);
    daemon_set.spec.unwrap().template.spec.unwrap()
}

/// The agent's options on an IPv4 node. Errors: it refuses them there, or on an IPv6 node.
pub(super) fn options(pod: &PodSpec) -> Result<epguard::cli::Cli, clap::Error> {
    options_on("2001:db8::1", pod)?;
    options_on("192.0.2.1", pod)
}

/// The agent's options, with variables in place of those that the kubelet fills in.
fn options_on(host_ip: &str, pod: &PodSpec) -> Result<epguard::cli::Cli, clap::Error> {
    let mut words = vec!["epguard".to_owned()];
    for argument in pod.containers[0].args.iter().flatten() {
        let named = argument.replace("$(NODE_NAME)", "filled-in");
        words.push(named.replace("$(HOST_IP)", host_ip));
    }
    epguard::cli::Cli::try_parse_from(words)
}

/// The collection across namespaces: `/api/v1/pods`.
struct Path;

impl Visitor for Path {
    type Output = &'static str;

    fn visit<O: Object>(self, _: fn(Change<O>) -> Fact) -> &'static str {
        O::PATH
    }
}

#[test]
fn the_role_allows_only_the_agents_lists_watches_and_events() {
    let role: ClusterRole = schema::read(&manifest("ClusterRole"));
    let mut may = Vec::new();
    for rule in role.rules.unwrap() {
        let group = rule.api_groups.unwrap().join(",");
        let verbs = rule.verbs.join(",");
        let resources = rule.resources.unwrap();
        may.extend(
            resources
                .iter()
                .map(|resource| format!("{verbs} {group}/{resource}")),
        );
    }
    let watched = Watched::ALWAYS.map(|watched| {
        let (root, resource) = watched.visit(Path).rsplit_once('/').unwrap();
        let group = root
            .strip_prefix("/apis/")
            .and_then(|group| group.split_once('/'));
        format!(
            "list,watch {}/{resource}",
            group.map_or("", |(group, _)| group)
        )
    });
    let mut needed = [
        &watched[..],
        &["create,patch events.k8s.io/events".to_owned()],
    ]
    .concat();
    needed.sort_unstable();
    may.sort_unstable();
    assert_eq!(may, needed);
}

#[test]
fn the_agent_may_read_the_mode_policy_in_its_own_namespace() {
    let role: Role = schema::read(&manifest("Role"));
    let [only] = role.rules.as_deref().unwrap() else {
        panic!("{role:?}")
    };
    assert_eq!(
        (only.resources.as_deref().unwrap(), &only.verbs),
        (
            &["configmaps".to_owned()][..],
            &vec!["list".to_owned(), "watch".into()]
        )
    );
    let binding: RoleBinding = schema::read(&manifest("RoleBinding"));
    assert_eq!(
        manifest("RoleBinding")["subjects"],
        manifest("ClusterRoleBinding")["subjects"]
    );
    assert_eq!(Some(binding.role_ref.name), role.metadata.name);
    let arguments = pod().containers[0].args.clone().unwrap();
    let namespace = role.metadata.namespace.unwrap();
    let wanted = format!("--mode-policy={namespace}/epguard");
    assert!(arguments.contains(&wanted), "{arguments:?}");
}

#[test]
fn the_role_is_bound_to_the_account_the_agent_runs_under() {
    let binding: ClusterRoleBinding = schema::read(&manifest("ClusterRoleBinding"));
    let subject = &binding.subjects.as_ref().unwrap()[0];
    assert_eq!(
        binding.role_ref.name,
        manifest("ClusterRole")["metadata"]["name"]
    );
    let account = &manifest("ServiceAccount")["metadata"];
    assert_eq!(account["name"], subject.name);
    assert_eq!(account["namespace"].as_str(), subject.namespace.as_deref());
    assert_eq!(
        account["name"].as_str(),
        pod().service_account_name.as_deref()
    );
}

#[test]
fn the_agent_runs_on_every_node_in_its_network_and_writes_to_no_file_system_of_its_own() {
    let pod = pod();
    let toleration = &pod.tolerations.as_ref().unwrap()[0];
    assert_eq!(
        (toleration.operator.as_deref(), &toleration.key),
        (Some("Exists"), &None)
    );
    assert_eq!(pod.host_network, Some(true));
    let security = pod.containers[0].security_context.as_ref().unwrap();
    assert_eq!(security.read_only_root_filesystem, Some(true));
}

#[test]
fn the_agent_knows_each_argument_that_it_is_started_with() {
    let read = options(&pod());
    assert!(read.is_ok(), "{:?}", read.err());
}

/// `ctr images import` keeps the archive's name, and the kubelet requests the full name of the
/// manifest's image.
#[test]
fn the_image_is_named_in_full_and_as_the_archive_names_it() {
    let image = pod().containers[0].image.clone().unwrap();
    let place = env!("CARGO_PKG_REPOSITORY").strip_prefix("https://github.com/");
    let place = place.unwrap().to_lowercase();
    assert_eq!(
        image,
        format!("ghcr.io/{place}:{}", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn the_agent_mounts_the_hosts_bpffs_where_its_pins_are() {
    let pod = pod();
    let volumes = pod.volumes.unwrap();
    let mounts = pod.containers[0].volume_mounts.clone().unwrap();
    assert_eq!(mounts.len(), volumes.len(), "every volume is mounted");
    let bpffs = mounts
        .iter()
        .find(|mount| mount.mount_path == "/sys/fs/bpf")
        .unwrap();
    let host = volumes
        .iter()
        .find(|volume| volume.name == bpffs.name)
        .unwrap();
    assert_eq!(host.host_path.as_ref().unwrap().path, "/sys/fs/bpf");
    assert_eq!(bpffs.mount_propagation.as_deref(), Some("HostToContainer"));
}
