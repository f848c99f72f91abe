//! The real agent under the role that `deploy/` gives it, at an API server that enforces it.

use super::world::{World, manifest, service};
use epguard_core::facts::Watched;
use epguard_lab::api::Kind;
use serde_json::{Value, json};
use std::time::Duration;

/// The `ClusterRole` and the `Role`.
fn roles() -> [Value; 2] {
    ["ClusterRole", "Role"].map(manifest)
}

/// The arguments of the `DaemonSet`.
const MODE_POLICY: [&str; 2] = ["--mode-policy", "epguard/epguard"];

/// Three dead pods that a Service lists: more than the breaker lets one list deny.
pub(crate) fn mass(name: &str) -> World {
    let world = World::new(name);
    world.store.ensure_namespace("shop").unwrap();
    world.gets_range("10.244.1.0/24");
    world.store.apply(service("web", "10.96.0.1")).unwrap();
    for number in 1..=3 {
        let name = format!("a{number}");
        let ip = format!("10.244.1.1{number}");
        world.list_dead(&name, &ip, "web", "TCP");
    }
    world
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn the_role_grants_every_right_that_the_agent_needs() {
    let mut world = mass("rbac");
    bind_without(&world, &[]);
    world.start(&MODE_POLICY);
    world.until("synced", |status| status.synced);
    // Delays the second list, so that the breaker raises its alarm, which is an Event.
    world
        .server
        .faults(|faults| faults.delay = Duration::from_secs(2));
    let store = world.store.clone();
    world.until("told of the breaker", |_| {
        !store.list(Kind::Event).is_empty()
    });
    assert_eq!(world.store.list(Kind::Event)[0]["reason"], "DenialsStopped");
    world.until("denying under a lease", |status| {
        status.breaker.is_empty() && !status.services.is_empty() && status.lease_ms > 0
    });
    assert_eq!(world.server.api.access.refused(), [""; 0]);
    // The second list is one of the Service's pods, and one of its slices; on a busy machine one
    // may come twice. All pods come once.
    let requests = world.server.api.audit.requests();
    let count = |path: &str, parameters: &[&str]| {
        let asks = |query: &str| parameters.iter().any(|parameter| query.contains(parameter));
        requests
            .iter()
            .filter(|request| request.path.ends_with(path) && asks(&request.query))
            .count()
    };
    for path in ["namespaces/shop/pods", "namespaces/shop/endpointslices"] {
        assert!(
            (1..=2).contains(&count(path, &["labelSelector"])),
            "{requests:#?}"
        );
    }
    assert_eq!(
        count("v1/pods", &["sendInitialEvents", "limit=500"]),
        1,
        "{requests:#?}"
    );
    // A lost watch is resumed; an expired one is listed again.
    world.server.faults(|faults| faults.delay = Duration::ZERO);
    world.server.reset_connections();
    world.until("back", |status| {
        status
            .watches
            .values()
            .all(|watch| watch.up && watch.restarts == 1)
    });
    assert_eq!(world.server.api.access.refused(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn the_role_grants_only_rights_that_the_agent_needs() {
    for missing in reads() {
        let mut world = mass("rbac-less");
        bind_without(&world, &[&missing]);
        // A list is requested by itself only where it cannot be streamed.
        let alone = missing.starts_with("list");
        world.server.faults(|faults| faults.pages_only = alone);
        world.start(&MODE_POLICY);
        let resource = match missing.rsplit('/').next().unwrap() {
            "configmaps" => Watched::ModePolicy,
            resource => *Watched::ALWAYS
                .iter()
                .find(|watched| watched.to_string() == resource)
                .unwrap(),
        };
        world.until("told of the refusal", |status| {
            status
                .watches
                .get(&resource)
                .is_some_and(|watch| watch.error.is_some())
        });
        let refused = world.server.api.access.refused();
        let all = refused.iter().all(|other| *other == missing);
        assert!(all && !refused.is_empty(), "{missing}: {refused:?}");
    }
}

/// Each `list` and `watch` on a resource that the roles allow. `events.rs` tests the verbs on
/// Events.
fn reads() -> Vec<String> {
    let mut reads = Vec::new();
    for rule in roles()
        .iter()
        .flat_map(|role| role["rules"].as_array().unwrap())
    {
        let group = rule["apiGroups"][0].as_str().unwrap();
        for resource in rule["resources"].as_array().unwrap() {
            let verbs = rule["verbs"].as_array().unwrap().iter();
            let resource = resource.as_str().unwrap();
            let named = verbs.map(|verb| format!("{} {group}/{resource}", verb.as_str().unwrap()));
            reads.extend(
                named.filter(|read| read.starts_with("list ") || read.starts_with("watch ")),
            );
        }
    }
    assert_eq!(reads.len(), 12);
    reads
}

/// Binds the roles without some rights, each a verb and a resource.
pub(crate) fn bind_without(world: &World, missing: &[&str]) {
    for mut role in roles() {
        let mut rules = Vec::new();
        for rule in role["rules"].as_array().unwrap() {
            for resource in rule["resources"].as_array().unwrap() {
                let of = format!(
                    "{}/{}",
                    rule["apiGroups"][0].as_str().unwrap(),
                    resource.as_str().unwrap()
                );
                let mut verbs = rule["verbs"].as_array().unwrap().clone();
                verbs.retain(|verb| {
                    !missing.contains(&&*format!("{} {of}", verb.as_str().unwrap()))
                });
                rules.push(json!({"apiGroups": rule["apiGroups"], "resources": [resource], "verbs": verbs}));
            }
        }
        role["rules"] = rules.into();
        world.server.api.access.bind(&role).unwrap();
    }
}
