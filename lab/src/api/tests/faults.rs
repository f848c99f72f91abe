use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::{Lab, POD, PODS, names, pod};
use crate::api::{Faults, Kind};

#[tokio::test]
async fn each_fault_has_its_effect_on_streams_and_requests_until_it_ends() {
    type Fault = fn(&mut Faults);
    let cases: [(Fault, &str, &str); 5] = [
        (|f| f.outage = true, "broken", "error"),
        (|f| f.hang = true, "silent", "no answer"),
        (|f| f.mute = [Kind::Pod].into(), "silent", "200"),
        (|f| f.mute = [Kind::Node].into(), "ADDED a 301", "200"),
        (|f| _ = f.forbidden.insert(Kind::Pod), "ADDED a 301", "403"),
    ];
    join_all(cases.map(async |(fault, line, code)| {
        let lab = Lab::with(&[]).await;
        let mut stream = lab.watch(PODS, "").await;
        lab.server.faults(fault);
        lab.store.apply(pod("a")).unwrap();
        stream.expect(&[line]).await;
        let got = match lab.send("GET", PODS, &Value::Null).await {
            Ok((code, _)) => code.to_string(),
            Err(error) if error == "no answer" => error,
            Err(_) => "error".into(),
        };
        assert_eq!(got, code);
        if line == "broken" {
            let mut raw = TcpStream::connect(lab.server.address).await.unwrap();
            let refused = raw.read_u8().await.unwrap_err().kind();
            assert_eq!(refused, std::io::ErrorKind::ConnectionReset);
        } else if code == "403" {
            assert_eq!(lab.get("/api/v1/nodes").await.0, 200);
        }
        lab.server.faults(|faults| {
            *faults = Faults {
                quiet: true,
                ..Faults::default()
            }
        });
        if line == "silent" {
            stream.expect(&["ADDED a 301"]).await;
        }
        assert_eq!(names(&lab.get(PODS).await.1), ["a"]);
    }))
    .await;
}

#[tokio::test]
async fn requests_can_be_delayed_and_streams_break_by_a_reset_or_when_the_server_is_dropped() {
    let lab = Lab::with(&[]).await;
    let mut stream = lab.watch(PODS, "").await;
    lab.server.reset_connections();
    stream.expect(&["broken"]).await;
    lab.server.faults(|f| f.delay = Duration::from_millis(150));
    let before = Instant::now();
    let mut stream = lab.watch(PODS, "").await;
    assert!(before.elapsed() >= Duration::from_millis(150));
    lab.store.apply(pod("a")).unwrap();
    stream.expect(&["ADDED a 301"]).await;
    drop(lab.server);
    stream.expect(&["broken"]).await;
}

#[tokio::test]
async fn the_audit_log_has_each_request_with_the_octets_of_its_answer() {
    let lab = Lab::with(&["a"]).await;
    let list = lab.get(&format!("{PODS}?limit=1")).await.1;
    let nodes = lab.get("/api/v1/nodes").await.1;
    lab.get(POD).await;
    let mut stream = lab.watch(PODS, "timeoutSeconds=9").await;
    stream.expect(&["ADDED a 301"]).await;
    let audit = &lab.server.api.audit;
    assert_eq!(
        ["list", "get", "watch", "delete"].map(|verb| audit.count(verb, "pods")),
        [1, 1, 1, 0]
    );
    let requests = audit.requests();
    assert_eq!(requests[3].query, "watch=1&timeoutSeconds=9");
    let event = json!({"type": "ADDED", "object": list["items"][0]});
    for (request, verb, resource, answer) in [
        (0, "list", "pods", &list),
        (1, "list", "nodes", &nodes),
        (3, "watch", "pods", &event),
    ] {
        let request = &requests[request];
        assert_eq!((&*request.verb, request.resource), (verb, resource));
        assert_eq!(
            request.octets(),
            answer.to_string().len() as u64 + 1,
            "{verb} {resource}"
        );
    }
    audit.clear();
    assert!(audit.requests().is_empty());
}
