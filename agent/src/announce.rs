//! Alarms as Event objects of the Kubernetes API, on the Service that they are about. Best effort: the log says the same.

use crate::facts::Name;
use crate::state::Trip;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Alarms waiting for the API server; more than that are dropped.
const BACKLOG: usize = 64;

/// One Event per Service in this time stands for all of its alarms.
const QUIET: Duration = Duration::from_mins(5);

/// Longest wait for the API server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Hands alarms over without waiting.
#[derive(Debug, Clone)]
pub struct Announcer(mpsc::Sender<(Name, String)>);

impl Announcer {
    /// Starts the task that writes Events; it ends with the announcer.
    #[must_use]
    pub fn start(client: Client, node: String) -> Self {
        let (tell, alarms) = mpsc::channel(BACKLOG);
        tokio::spawn(write(client, node, alarms));
        Self(tell)
    }

    /// The breaker holds denials of this Service.
    pub fn tripped(&self, service: &Name, trip: &Trip) {
        let note = format!(
            "{} of {} recently ready endpoints would be denied ({}); observed until a second list agrees",
            trip.held,
            trip.ready_recently,
            trip.why.as_str()
        );
        // A full backlog means an API server that takes nothing: the log has the alarm.
        let _ = self.0.try_send((service.clone(), note));
    }
}

async fn write(client: Client, node: String, mut alarms: mpsc::Receiver<(Name, String)>) {
    let mut told: HashMap<Name, Instant> = HashMap::new();
    let mut refused = false;
    while let Some((service, note)) = alarms.recv().await {
        told.retain(|_, at| at.elapsed() < QUIET);
        if told.contains_key(&service) {
            continue;
        }
        let api: Api<Event> = Api::namespaced(client.clone(), &service.0);
        let event = event(&service, &node, note);
        let params = PostParams::default();
        match tokio::time::timeout(PATIENCE, api.create(&params, &event)).await {
            Ok(Ok(_)) => _ = told.insert(service, Instant::now()),
            failed if !refused => {
                refused = true;
                tracing::debug!(
                    ?failed,
                    "cannot write Events: allow `create` on events.k8s.io/events to see alarms there"
                );
            }
            _ => {}
        }
    }
}

fn event((namespace, name): &Name, reporter: &str, note: String) -> Event {
    Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}.")),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        action: Some("HoldDenials".to_owned()),
        event_time: Some(MicroTime(Timestamp::now())),
        note: Some(note),
        reason: Some("BreakerTripped".to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some("epguard.io/agent".to_owned()),
        reporting_instance: Some(reporter.to_owned()),
        type_: Some("Warning".to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_what_the_api_server_insists_on() {
        let event = event(&("shop".into(), "web".into()), "node-a", "note".into());
        let json = serde_json::to_value(event).unwrap();
        for field in [
            "eventTime",
            "reportingController",
            "reportingInstance",
            "action",
            "reason",
            "type",
        ] {
            assert!(
                json[field].is_string(),
                "events.k8s.io/v1 requires {field}: {json}"
            );
        }
        assert_eq!(json["regarding"]["kind"], "Service");
        assert_eq!(json["metadata"]["namespace"], json["regarding"]["namespace"]);
    }
}
