//! `epguard why` with the answer of a running agent.

use super::world::{World, dead_pod, service, slice};
use epguard::commands::why::{Question, explain};
use epguard::shared::args::ServiceArgs;
use epguard::shared::status::{self, Request};
use epguard_core::state::PodState;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn why_names_the_owners_of_the_ip_and_the_reason_of_its_denial() {
    let mut world = World::new("why");
    world.store.apply(service("web", "10.96.0.1")).unwrap();
    world.start(&[]);
    world.until("synced", |status| status.synced);
    let dead = world.store.apply(dead_pod("a", "10.244.1.10")).unwrap();
    world.until("told of the pod", |status| status.figures.pods[&PodState::Dead] == 1);
    let ports = json!([{"port": 8080}]);
    let listed = slice("web-1", "web", "10.244.1.10", &dead["metadata"]["uid"], &ports);
    world.store.apply(listed).unwrap();
    world.until("denying", |status| !status.services.is_empty());

    let ip = "10.244.1.10".parse().unwrap();
    let answer = status::ask(&world.dir, &Request::History(ip)).unwrap();
    let question = Question {
        subject: "10.244.1.10:8080".parse().unwrap(),
        services: ServiceArgs { service: Some("shop/web".to_owned()), namespace: None },
        at: None,
    };
    let explanation = explain(&answer.history.unwrap(), &question);
    let [verdict] = explanation.verdicts.as_slice() else { panic!("{explanation:?}") };
    assert_eq!((&*verdict.verdict, verdict.reason.as_deref()), ("deny", Some("dead-backend")));
    assert_eq!((explanation.mode.as_str(), explanation.now), ("enforce", true));
    let evidence: Vec<&str> = explanation.evidence.iter().map(|event| event.what.as_str()).collect();
    let uid = dead["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        evidence,
        [
            &format!("pod shop/a ({uid}) on n shows the IP"),
            "pod shop/a is dead: finished, and its kubelet reports that its network is torn down",
            "shop/web lists it, ready, on TCP 8080 for shop/a",
            "shop/web TCP 8080: denied as dead-backend: every packet",
        ]
    );
    assert!(explanation.evidence.iter().all(|event| event.rv > 0));
    println!("{}", explanation.text());
}
