//! The manifests of the base.

use super::{documents, schema};
use clap::Parser as _;
use epguard_core::facts::Watched;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};

fn pod() -> PodSpec {
    let daemon_set: DaemonSet = schema::read(&documents("base/daemonset.yaml")[0]);
    daemon_set.spec.unwrap().template.spec.unwrap()
}

#[test]
fn the_role_allows_only_the_agents_lists_watches_and_events() {
    let role: ClusterRole = schema::read(&documents("base/rbac.yaml")[1]);
    let mut may = Vec::new();
    for rule in role.rules.unwrap() {
        let (group, verbs) = (rule.api_groups.unwrap().join(","), rule.verbs.join(","));
        let resources = rule.resources.unwrap();
        may.extend(resources.iter().map(|resource| format!("{verbs} {group}/{resource}")));
    }
    let watched = Watched::ALWAYS.map(|watched| {
        let (root, resource) = watched.path().rsplit_once('/').unwrap();
        let group = root.strip_prefix("/apis/").and_then(|group| group.split_once('/'));
        format!("list,watch {}/{resource}", group.map_or("", |(group, _)| group))
    });
    let mut needed = [&watched[..], &["create,patch events.k8s.io/events".to_owned()]].concat();
    needed.sort_unstable();
    may.sort_unstable();
    assert_eq!(may, needed);
}

#[test]
fn the_agent_may_read_the_mode_policy_in_its_own_namespace() {
    let rbac = documents("base/rbac.yaml");
    let role: Role = schema::read(&rbac[3]);
    let [only] = role.rules.as_deref().unwrap() else { panic!("{role:?}") };
    assert_eq!(
        (only.resources.as_deref().unwrap(), &only.verbs),
        (&["configmaps".to_owned()][..], &vec!["list".to_owned(), "watch".into()])
    );
    let binding: RoleBinding = schema::read(&rbac[4]);
    assert_eq!(rbac[4]["subjects"], rbac[2]["subjects"]);
    assert_eq!(Some(binding.role_ref.name), role.metadata.name);
    let arguments = pod().containers[0].args.clone().unwrap();
    let namespace = role.metadata.namespace.unwrap();
    let wanted = format!("--fleet-config={namespace}/epguard");
    assert!(arguments.contains(&wanted), "{arguments:?}");
}

#[test]
fn the_role_is_bound_to_the_account_the_agent_runs_under() {
    let rbac = documents("base/rbac.yaml");
    let binding: ClusterRoleBinding = schema::read(&rbac[2]);
    let subject = &binding.subjects.as_ref().unwrap()[0];
    assert_eq!(binding.role_ref.name, rbac[1]["metadata"]["name"]);
    let account = &rbac[0]["metadata"];
    assert_eq!(account["name"], subject.name);
    assert_eq!(account["namespace"].as_str(), subject.namespace.as_deref());
    assert_eq!(account["name"].as_str(), pod().service_account_name.as_deref());
}

#[test]
fn the_agent_runs_on_every_node_in_its_network_and_writes_to_no_file_system_of_its_own() {
    let pod = pod();
    let toleration = &pod.tolerations.as_ref().unwrap()[0];
    assert_eq!((toleration.operator.as_deref(), &toleration.key), (Some("Exists"), &None));
    assert_eq!(pod.host_network, Some(true));
    let security = pod.containers[0].security_context.as_ref().unwrap();
    assert_eq!(security.read_only_root_filesystem, Some(true));
}

#[test]
fn the_agent_knows_each_argument_that_it_is_started_with() {
    let container = pod().containers.remove(0);
    let mut arguments = vec!["epguard".to_owned()];
    for argument in container.args.unwrap() {
        let values = container.env.iter().flatten();
        // The API server fills in what has no value here.
        let filled = values.fold(argument, |argument, variable| {
            let value = variable.value.as_deref().unwrap_or("filled-in");
            argument.replace(&format!("$({})", variable.name), value)
        });
        arguments.push(filled);
    }
    let read = epguard::cli::Cli::try_parse_from(&arguments);
    assert!(read.is_ok(), "{arguments:?}: {:?}", read.err());
}

/// `ctr images import` keeps the archive's name, and the kubelet requests the full name of the manifest's image.
#[test]
fn the_image_is_named_in_full_and_as_the_archive_names_it() {
    let image = pod().containers[0].image.clone().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(image, format!("docker.io/library/epguard:{version}"));
    let source = include_str!("../../../src/image/mod.rs");
    assert!(source.contains(r#"concat!("docker.io/library/epguard:", env!("CARGO_PKG_VERSION"))"#));
}

#[test]
fn the_agent_mounts_the_hosts_bpffs_where_its_pins_are() {
    let pod = pod();
    let (volumes, mounts) = (pod.volumes.unwrap(), pod.containers[0].volume_mounts.clone().unwrap());
    assert_eq!(mounts.len(), volumes.len(), "every volume is mounted");
    let bpffs = mounts.iter().find(|mount| mount.mount_path == "/sys/fs/bpf").unwrap();
    let host = volumes.iter().find(|volume| volume.name == bpffs.name).unwrap();
    assert_eq!(host.host_path.as_ref().unwrap().path, "/sys/fs/bpf");
    assert_eq!(bpffs.mount_propagation.as_deref(), Some("HostToContainer"));
}
