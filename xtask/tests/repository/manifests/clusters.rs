//! The chart in clusters like GKE, EKS and OpenShift, and in old ones.

use super::agent::{options, pod_of};
use super::chart::helm;
use super::schema::{SecurityContextConstraints, read};
use super::{object, objects};
use clap::Parser as _;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::api::rbac::v1::Role;
use serde_json::{Value, json};

/// What Helm renders for a cluster of this version and with these APIs beside Kubernetes' own.
fn release(values: &Value, version: &str, apis: &[&str]) -> Value {
    let options = json!({"kube_version": version, "api_versions": apis});
    helm(&[json!(["template", values, options])]).remove(0)
}

fn objects_of(release: &Value) -> Vec<Value> {
    let manifest = release["manifest"].as_str();
    objects(manifest.unwrap_or_else(|| panic!("{release}")))
}

fn agent_pod(objects: &[Value]) -> PodSpec {
    let pod = pod_of(&object(objects, "DaemonSet", "epguard"));
    let read = options(&pod);
    assert!(read.is_ok(), "{:?}", read.err());
    pod
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn gke_gets_pods_without_a_priority_class_that_it_refuses_outside_of_kube_system() {
    let image = "europe-docker.pkg.dev/project/mirror/epguard";
    let values = json!({"priorityClassName": "", "image": {"repository": image}});
    let objects = objects_of(&release(&values, "v1.33.1-gke.1234", &[]));
    let pod = agent_pod(&objects);
    assert_eq!(pod.priority_class_name, None);
    let expected = format!("{image}:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(pod.containers[0].image, Some(expected));
    let security = pod.containers[0].security_context.as_ref().unwrap();
    assert!(security.app_armor_profile.is_some());
}

/// The rules of each term that chooses nodes, as `KEY OPERATOR VALUES`.
fn rules_of_terms(pod: &PodSpec) -> Vec<Vec<String>> {
    let affinity = pod.affinity.as_ref().unwrap();
    let node = affinity.node_affinity.as_ref().unwrap();
    let required = node
        .required_during_scheduling_ignored_during_execution
        .as_ref()
        .unwrap();
    let mut all = Vec::new();
    for term in &required.node_selector_terms {
        let rules = term.match_expressions.iter().flatten();
        all.push(
            rules
                .map(|rule| {
                    let values = rule.values.iter().flatten().cloned();
                    let values: Vec<String> = values.collect();
                    format!("{} {} {}", rule.key, rule.operator, values.join(","))
                })
                .collect(),
        );
    }
    all
}

/// Fargate's nodes take no `DaemonSet`, and its pods there would stay pending.
#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn eks_gets_agents_on_both_architectures_and_on_no_virtual_node_whatever_the_users_affinity() {
    let own = [
        "kubernetes.io/arch In amd64,arm64",
        "type NotIn virtual-kubelet",
        "eks.amazonaws.com/compute-type NotIn fargate",
    ];
    let terms = json!([
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]},
    ]);
    let affinity = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        "preferredDuringSchedulingIgnoredDuringExecution": [],
    }});
    let values = json!({
        "image": {"repository": "1.dkr.ecr.eu-west-1.amazonaws.com/epguard"},
        "global": {"imageRegistry": "mirror.example:5000/hub"},
    });
    let mut pooled = values.clone();
    pooled["affinity"] = affinity;
    for (values, before) in [
        (values, vec![vec![]]),
        (pooled, vec![vec!["pool In a"], vec![]]),
    ] {
        let objects = objects_of(&release(&values, "v1.31.4-eks-2d5f260", &[]));
        let pod = agent_pod(&objects);
        let mut expected = before;
        for term in &mut expected {
            term.extend(own);
        }
        assert_eq!(rules_of_terms(&pod), expected);
        let image = pod.containers[0].image.clone().unwrap();
        assert!(
            image.starts_with("mirror.example:5000/hub/epguard:"),
            "{image}"
        );
    }
}

/// Panics unless the constraints admit the pod: the checks of OpenShift's admission that concern
/// it.
fn admit(constraints: &SecurityContextConstraints, pod: &PodSpec) {
    assert!(constraints.allow_host_network && constraints.allow_host_ports);
    for volume in pod.volumes.iter().flatten() {
        let fields = serde_json::to_value(volume).unwrap();
        let mut kinds = fields.as_object().unwrap().keys();
        assert!(kinds.all(|kind| kind == "name" || constraints.volumes.contains(kind)));
    }
    assert!(constraints.allow_host_dir_volume_plugin);
    let security = pod.containers[0].security_context.as_ref().unwrap();
    let is_privileged = security.privileged == Some(true);
    assert_eq!(constraints.allow_privileged_container, is_privileged);
    assert_eq!(constraints.allow_privilege_escalation, is_privileged);
    assert_eq!(security.read_only_root_filesystem, Some(true));
    if is_privileged {
        return;
    }
    let capabilities = security.capabilities.as_ref().unwrap();
    assert_eq!(
        capabilities.add.as_ref(),
        Some(&constraints.allowed_capabilities)
    );
    assert_eq!(
        capabilities.drop.as_ref(),
        Some(&constraints.required_drop_capabilities)
    );
    let profile = security.seccomp_profile.as_ref().unwrap();
    let name = match (&*profile.type_, &profile.localhost_profile) {
        ("Localhost", Some(file)) => format!("localhost/{file}"),
        ("RuntimeDefault", None) => "runtime/default".to_owned(),
        ("Unconfined", None) => "unconfined".to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(constraints.seccomp_profiles, [name]);
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn openshift_gets_constraints_that_admit_exactly_the_agents_and_that_their_account_may_use() {
    let api = ["security.openshift.io/v1"];
    for values in [
        json!({}),
        json!({"privileged": true}),
        json!({"metrics": {"monitor": "PodMonitor"}}),
        json!({"seccompProfile": {"type": "RuntimeDefault"}}),
        json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "epguard.json"}}),
    ] {
        let objects = objects_of(&release(&values, "v1.32.6", &api));
        let pod = agent_pod(&objects);
        let constraints = object(&objects, "SecurityContextConstraints", "epguard");
        let constraints: SecurityContextConstraints = read(&constraints);
        assert_eq!(constraints.metadata.namespace, None);
        admit(&constraints, &pod);
        assert!(!constraints.allow_host_ipc && !constraints.allow_host_pid);
        assert_eq!(constraints.default_add_capabilities, [""; 0]);
        let role: Role = read(&object(&objects, "Role", "epguard"));
        let mut rules = role.rules.iter().flatten();
        let uses = rules.find(|rule| rule.verbs == ["use"]).unwrap();
        assert_eq!(uses.resource_names, Some(vec!["epguard".to_owned()]));
        let resource = "securitycontextconstraints".to_owned();
        assert_eq!(uses.resources, Some(vec![resource]));
        let binding = object(&objects, "RoleBinding", "epguard");
        assert_eq!(binding["subjects"][0]["name"], "epguard");
        assert_eq!(pod.service_account_name.as_deref(), Some("epguard"));
    }
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn other_clusters_and_those_who_bring_their_own_get_no_constraints() {
    let own = json!({"scc": {"create": false}});
    for release in [
        release(&json!({}), "v1.32.6", &[]),
        release(&own, "v1.32.6", &["security.openshift.io/v1"]),
    ] {
        let manifest = release["manifest"].as_str().unwrap();
        assert!(!manifest.contains("security.openshift.io"), "{manifest}");
    }
}

/// Before Kubernetes 1.30 the API server refuses or drops the field, and the runtime's profile
/// would keep the agent from bpffs.
#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn an_older_kubernetes_gets_the_apparmor_profile_as_an_annotation() {
    let key = "container.apparmor.security.beta.kubernetes.io/agent";
    for (version, in_annotation) in [("v1.29.9", true), ("v1.30.0", false)] {
        let objects = objects_of(&release(&json!({}), version, &[]));
        let template = &object(&objects, "DaemonSet", "epguard")["spec"]["template"];
        let annotation = &template["metadata"]["annotations"][key];
        assert_eq!(annotation == "unconfined", in_annotation, "{version}");
        let field = &template["spec"]["containers"][0]["securityContext"]["appArmorProfile"];
        assert_eq!(field.is_null(), in_annotation, "{version}");
    }
}

/// Their kubelets do not show when a sandbox has ended.
#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn the_notes_warn_where_no_death_can_be_proven() {
    for (version, is_warned) in [("v1.28.15", true), ("v1.29.0", false)] {
        let release = release(&json!({}), version, &[]);
        let notes = release["notes"].as_str().unwrap();
        assert_eq!(notes.contains("WARNING"), is_warned, "{notes}");
    }
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn the_notes_name_the_agents_namespace_only_if_the_plugin_would_not_find_it() {
    for (namespace, flag) in [("", None), ("agents", Some("agents"))] {
        let values = json!({"namespaceOverride": namespace});
        let release = release(&values, "v1.34.0", &[]);
        let notes = release["notes"].as_str().unwrap();
        let mut lines = notes.lines().map(str::trim);
        let line = lines
            .find(|line| line.starts_with("kubectl epguard status"))
            .unwrap();
        assert!(kubectl_epguard::Plugin::try_parse_from(line.split(' ').skip(1)).is_ok());
        let mut words = line.split(" --agents-namespace ").skip(1);
        assert_eq!(words.next(), flag, "{line}");
    }
}
