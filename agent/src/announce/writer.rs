//! Writes Events, one after the other, for as long as the API server lets it.

use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::core::{
    Request, Status,
    params::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longest wait for the API server.
const PATIENCE: Duration = Duration::from_secs(10);

/// An Event to write.
#[derive(Debug)]
pub struct Entry {
    /// The whole of it.
    pub event: Event,
    /// It was written before: only its series is news.
    pub repeated: bool,
}

/// Returns when nobody announces any more, or when the API server forbids it, which a restart alone would change.
pub async fn write(client: Client, mut entries: mpsc::Receiver<Entry>) {
    while let Some(Entry { event, repeated }) = entries.recv().await {
        let verb = if repeated { "patch" } else { "create" };
        let mut answer = send(&client, &event, repeated).await;
        // API servers forget Events after a while.
        if repeated && matches!(&answer, Err(kube::Error::Api(status)) if status.code == 404) {
            answer = send(&client, &event, false).await;
        }
        match answer {
            Ok(()) => {}
            Err(kube::Error::Api(status)) if is_forbidden(&status) => {
                let message = status.message.lines().next().unwrap_or_default();
                tracing::warn!(
                    "cannot {verb} Events: forbidden ({message}); allow the agent's account create and patch on events in \
                     events.k8s.io, or give it --events none; none are written until the agent starts anew"
                );
                return;
            }
            Err(error) => tracing::debug!(%error, "cannot {verb} an Event"),
        }
    }
}

/// Whether the account may not. A Namespace that is being deleted takes nothing from anybody, also with a 403.
fn is_forbidden(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let ending = causes
        .map(|cause| &cause.reason)
        .any(|reason| reason == "NamespaceTerminating");
    status.code == 403 && !ending
}

async fn send(client: &Client, event: &Event, repeated: bool) -> Result<(), kube::Error> {
    let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
    let resource = Request::new(format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"));
    let request = if repeated {
        let name = event.metadata.name.as_deref().unwrap_or_default();
        let series = Patch::Merge(json!({"series": event.series}));
        resource.patch(name, &PatchParams::default(), &series)
    } else {
        let body = serde_json::to_vec(event).map_err(kube::Error::SerdeError)?;
        resource.create(&PostParams::default(), body)
    };
    let request = request.map_err(kube::Error::BuildRequest)?;
    let answer = timeout(PATIENCE, client.request_text(request)).await;
    answer
        .map_err(|late| kube::Error::Service(late.into()))?
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::event::event;
    use super::super::series::Due;
    use super::super::topic::{Subject, Topic};
    use super::*;
    use bytes::Bytes;
    use http::{Response, StatusCode};
    use http_body_util::Full;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    fn entry(number: u64, repeated: bool) -> Entry {
        let about = Subject {
            kind: "Service",
            name: ("shop".into(), "web".into()),
            uid: None,
        };
        let moment = Duration::from_secs(1);
        let due = Due {
            topic: Topic::tripped(about),
            number,
            note: String::new(),
            count: 2,
            first: moment,
            last: moment,
            repeated,
        };
        let event = event(&due, "n", moment, "2026-03-01T12:00:00Z".parse().unwrap());
        Entry { event, repeated }
    }

    /// What is asked of a server that answers so, one after the other, with a code and a cause, and then takes
    /// everything.
    async fn asked(entries: Vec<Entry>, answers: &'static [(u16, &str)]) -> Vec<String> {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, mut answers) = (Arc::clone(&asked), answers.iter());
        let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let name = request.uri().path().rsplit('/').next().unwrap().to_owned();
            log.lock().unwrap().push(format!("{} {name}", request.method()));
            let (code, cause) = *answers.next().unwrap_or(&(201, ""));
            let details = json!({"causes": [{"reason": cause}]});
            let status = json!({"kind": "Status", "code": code, "message": "m", "details": details});
            let mut answer = Response::new(Full::new(Bytes::from(status.to_string())));
            *answer.status_mut() = StatusCode::from_u16(code).unwrap();
            async { Ok::<_, Infallible>(answer) }
        });
        let (queue, waiting) = mpsc::channel(8);
        for entry in entries {
            queue.try_send(entry).unwrap();
        }
        drop(queue);
        write(Client::new(server, "default"), waiting).await;
        asked.lock().unwrap().clone()
    }

    #[tokio::test]
    async fn an_event_that_the_server_has_forgotten_is_written_anew() {
        let entries = vec![entry(1, false), entry(1, true), entry(1, true)];
        assert_eq!(
            asked(entries, &[(201, ""), (200, ""), (404, "")]).await,
            [
                "POST events",
                "PATCH web.0000000000000001",
                "PATCH web.0000000000000001",
                "POST events"
            ]
        );
    }

    #[tokio::test]
    async fn a_refusal_ends_it_and_an_ending_namespace_or_a_failing_server_does_not() {
        let two = || vec![entry(1, false), entry(2, false)];
        assert_eq!(asked(two(), &[(403, "")]).await.len(), 1);
        assert_eq!(asked(two(), &[(403, "NamespaceTerminating")]).await.len(), 2);
        assert_eq!(asked(two(), &[(500, "")]).await.len(), 2);
        assert_eq!(asked(two(), &[(429, "")]).await.len(), 2);
    }
}
