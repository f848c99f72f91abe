use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::{Lab, pod};
use crate::api::{ApiServer, Kind};

const PODS: &str = "/api/v1/pods";

#[tokio::test]
async fn an_outage_breaks_streams_and_refuses_requests_until_it_ends() {
    let lab = Lab::start().await;
    let mut stream = lab.watch(PODS, "").await;
    lab.server.faults(|f| f.outage = true);
    assert_eq!(stream.line().await, "broken");
    let refused = lab.try_call("GET", PODS, "", &Value::Null).await.unwrap_err();
    assert_ne!(refused, "no answer");
    let mut raw = TcpStream::connect(lab.server.address()).await.unwrap();
    assert_eq!(raw.read_u8().await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    lab.server.faults(|f| f.outage = false);
    assert_eq!(lab.get(PODS).await.0, 200);
}

#[tokio::test]
async fn a_hung_server_neither_answers_nor_sends_and_goes_on_later() {
    let lab = Lab::start().await;
    let mut stream = lab.watch(PODS, "").await;
    lab.server.faults(|f| f.hang = true);
    lab.store.apply(pod("a")).unwrap();
    assert_eq!(stream.line().await, "silent");
    assert_eq!(lab.try_call("GET", PODS, "", &Value::Null).await.unwrap_err(), "no answer");
    lab.server.faults(|f| f.hang = false);
    assert_eq!(stream.line().await, format!("ADDED a {}", lab.store.revision()));
    assert_eq!(lab.get(PODS).await.0, 200);
}

#[tokio::test]
async fn muted_streams_send_nothing_while_lists_are_answered_and_resume_later() {
    let lab = Lab::start().await;
    let mut stream = lab.watch(PODS, "").await;
    lab.server.faults(|f| f.mute = true);
    lab.store.apply(pod("a")).unwrap();
    assert_eq!(stream.line().await, "silent");
    assert_eq!(super::names(&lab.get(PODS).await.1), ["a"]);
    lab.server.faults(|f| f.mute = false);
    assert_eq!(stream.line().await, format!("ADDED a {}", lab.store.revision()));
}

#[tokio::test]
async fn a_failing_server_refuses_requests_while_open_streams_go_on() {
    let lab = Lab::start().await;
    let mut stream = lab.watch(PODS, "").await;
    lab.server.faults(|f| f.failing = Some(500));
    assert_eq!(lab.get(PODS).await.0, 500);
    lab.store.apply(pod("a")).unwrap();
    assert_eq!(stream.line().await, format!("ADDED a {}", lab.store.revision()));
}

#[tokio::test]
async fn connections_can_be_reset() {
    let lab = Lab::start().await;
    let mut stream = lab.watch(PODS, "").await;
    lab.server.reset_connections();
    assert_eq!(stream.line().await, "broken");
    assert_eq!(lab.get(PODS).await.0, 200);
}

#[tokio::test]
async fn a_forbidden_kind_gets_403_and_the_others_are_served() {
    let lab = Lab::start().await;
    lab.server.faults(|f| _ = f.forbidden.insert(Kind::Pod));
    let (code, status) = lab.get(&format!("{PODS}?watch=1")).await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    assert_eq!(lab.get("/api/v1/nodes").await.0, 200);
}

#[tokio::test]
async fn a_delay_is_added_to_requests() {
    let lab = Lab::start().await;
    lab.server.faults(|f| f.delay = Duration::from_millis(150));
    let before = Instant::now();
    lab.get(PODS).await;
    assert!(before.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn the_audit_log_counts_requests_by_verb() {
    let lab = Lab::start().await;
    lab.get(&format!("{PODS}?limit=1")).await;
    lab.get("/api/v1/namespaces/ns/pods/a").await;
    drop(lab.watch(PODS, "timeoutSeconds=9").await);
    let audit = lab.server.audit();
    let counts = ["list", "get", "watch", "delete"].map(|verb| audit.count(verb, "pods"));
    assert_eq!(counts, [1, 1, 1, 0]);
    assert_eq!(audit.requests()[2].query, "watch=1&timeoutSeconds=9");
    audit.clear();
    assert_eq!(audit.requests(), []);
}

#[tokio::test]
async fn the_octets_of_each_answer_are_counted() {
    let lab = Lab::start().await;
    lab.store.apply(pod("a")).unwrap();
    let mut stream = lab.watch(PODS, "").await;
    stream.line().await;
    let (list, nodes) = (lab.get(PODS).await.1, lab.get("/api/v1/nodes").await.1);
    let requests = lab.server.audit().requests();
    let shown = requests.iter().map(|request| (&*request.verb, request.resource, request.octets));
    let octets = |body: &Value| body.to_string().len() as u64 + 1;
    let event = json!({"type": "ADDED", "object": list["items"][0]});
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            ("watch", "pods", octets(&event)),
            ("list", "pods", octets(&list)),
            ("list", "nodes", octets(&nodes)),
        ]
    );
}

#[tokio::test]
async fn several_servers_serve_one_store_and_end_when_dropped() {
    let lab = Lab::start().await;
    let listener = std::net::TcpListener::bind("[::1]:0").unwrap();
    let second = ApiServer::start(listener, lab.store.clone()).unwrap();
    let client = super::connect(&second.kubeconfig()).await;
    let other = Lab { store: lab.store.clone(), server: second, client };
    let mut stream = other.watch(PODS, "").await;
    lab.store.apply(pod("a")).unwrap();
    assert_eq!(stream.line().await, format!("ADDED a {}", lab.store.revision()));
    drop(other);
    assert_eq!(stream.line().await, "broken");
}
