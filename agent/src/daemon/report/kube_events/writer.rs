//! Writes Events, one after the other, and pauses while the API server forbids it.

use super::DueEvent;
use crate::shared::client::cause;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Client, ResourceExt as _};
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Longest wait for an answer of the API server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits between attempts in seconds, a minute in all.
const RESTS: [u64; 6] = [1, 2, 4, 8, 16, 30];

/// Pause after the API server forbids the account to create Events.
const FORBIDDEN: Duration = Duration::from_mins(10);

/// Writes Events until the queue is closed. If the API server cannot take an Event now, retries it
/// for a minute. All other Events wait meanwhile: the server cannot take them either.
pub async fn write(client: Client, mut queue: mpsc::Receiver<DueEvent>) {
    let mut may_patch = true;
    while let Some(DueEvent { event, is_repeated }) = queue.recv().await {
        if is_repeated && !may_patch {
            continue;
        }
        match retry(&client, &event, is_repeated).await {
            // An Event that was written is not written again because of the form of the answer.
            Ok(_) | Err(kube::Error::SerdeError(_)) => {}
            Err(kube::Error::Api(status)) if is_ending(&status) => {}
            // The role may be missing, or may be created within the next minutes. Without the right
            // to patch, each Event is written once, without later counts.
            Err(kube::Error::Api(status)) if lacks_role(&status) => {
                let (verb, until) = if is_repeated {
                    (
                        "patch",
                        "their counts stay unchanged until the agent restarts",
                    )
                } else {
                    ("create", "none are written for the next 10 minutes")
                };
                let message = status.message.lines().next().unwrap_or_default();
                tracing::warn!(
                    "cannot {verb} Events: forbidden ({message}); allow the agent's account create and patch on events in \
                     events.k8s.io, or give it --events none; {until}"
                );
                if is_repeated {
                    may_patch = false;
                } else {
                    sleep(FORBIDDEN).await;
                }
            }
            Err(error) => tracing::warn!(
                error = cause(error).1,
                event = event.metadata.name,
                "cannot write an Event; `epguard drops` shows all denials"
            ),
        }
    }
}

async fn retry(client: &Client, event: &Event, is_repeated: bool) -> kube::Result<Event> {
    let mut rests = RESTS.into_iter();
    loop {
        let sent = timeout(PATIENCE, send(client, event, is_repeated)).await;
        let sent = sent.unwrap_or_else(|late| Err(kube::Error::Service(late.into())));
        match (sent, rests.next()) {
            (Err(error), Some(rest)) if may_pass(&error) => sleep(Duration::from_secs(rest)).await,
            (sent, _) => return sent,
        }
    }
}

async fn send(client: &Client, event: &Event, is_repeated: bool) -> kube::Result<Event> {
    let events: Api<Event> =
        Api::namespaced(client.clone(), &event.namespace().unwrap_or_default());
    if is_repeated {
        let series = Patch::Merge(json!({"series": event.series}));
        match events
            .patch(&event.name_any(), &PatchParams::default(), &series)
            .await
        {
            // The Event may be gone: API servers delete Events after some time.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            patched => return patched,
        }
    }
    events.create(&PostParams::default(), event).await
}

/// True if the account may not write Events, by the text of the API server
/// (`responsewriters.forbiddenMessage`). A quota or an admission webhook of one namespace also
/// refuses with a 403.
fn lacks_role(status: &Status) -> bool {
    status.code == 403 && status.message.contains("forbidden: User ")
}

/// True for the 403 of a Namespace that is being deleted: it accepts no new objects.
fn is_ending(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

/// True if the server may accept the same request later: it is unreachable, failing or busy.
fn may_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        kube::Error::SerdeError(_) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::Full;
    use hyper::{Response, StatusCode};
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};
    use tokio::time::Instant;

    fn due(number: u64, is_repeated: bool) -> DueEvent {
        let mut event = Event::default();
        event.metadata.name = Some(format!("web.{number:016x}"));
        event.metadata.namespace = Some("shop".into());
        DueEvent { event, is_repeated }
    }

    /// The requests to a server that gives these answers in order, each with a code and a cause,
    /// and then accepts everything.
    async fn asked(events: Vec<DueEvent>, answers: &'static [(u16, &str)]) -> Vec<String> {
        const MESSAGE: &str =
            r#"events.events.k8s.io is forbidden: User "a" cannot create resource "events""#;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, mut answers) = (Arc::clone(&asked), answers.iter());
        let server = tower::service_fn(move |request: hyper::Request<kube::client::Body>| {
            let name = request.uri().path().rsplit('/').next().unwrap().to_owned();
            log.lock()
                .unwrap()
                .push(format!("{} {name}", request.method()));
            let (code, cause) = *answers.next().unwrap_or(&(201, ""));
            let details = json!({"causes": [{"reason": cause}]});
            let message = cause.strip_prefix("message: ").unwrap_or(MESSAGE);
            let status =
                json!({"kind": "Status", "code": code, "message": message, "details": details});
            let mut answer = Response::new(Full::new(Bytes::from(status.to_string())));
            *answer.status_mut() = StatusCode::from_u16(code).unwrap();
            async { Ok::<_, Infallible>(answer) }
        });
        let (queue, waiting) = mpsc::channel(8);
        for event in events {
            queue.try_send(event).unwrap();
        }
        drop(queue);
        write(Client::new(server, "default"), waiting).await;
        asked.lock().unwrap().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_written_anew_after_its_deletion_and_again_after_a_server_error_but_not_after_a_refusal()
     {
        const PATCH: &str = "PATCH web.0000000000000001";
        let series = || vec![due(1, false), due(1, true), due(1, true)];
        let deleted = asked(series(), &[(201, ""), (200, ""), (404, "")]).await;
        assert_eq!(deleted, ["POST events", PATCH, PATCH, "POST events"]);
        let two = series().into_iter().chain([due(2, false)]).collect();
        let without_right = asked(two, &[(201, ""), (403, "")]).await;
        assert_eq!(
            without_right,
            ["POST events", PATCH, "POST events"],
            "no right to patch"
        );
        let one = || vec![due(1, false)];
        assert_eq!(asked(one(), &[(503, ""), (429, "")]).await.len(), 3);
        assert_eq!(asked(one(), &[(500, ""); 99]).await.len(), 1 + RESTS.len());
        assert_eq!(asked(one(), &[(422, ""); 99]).await.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_refusal_nothing_is_written_for_ten_minutes_unless_the_namespace_ends() {
        let two = || vec![due(1, false), due(2, false)];
        let begun = Instant::now();
        assert_eq!(
            asked(two(), &[(403, "NamespaceTerminating")]).await.len(),
            2
        );
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(asked(two(), &[(403, "")]).await.len(), 2);
        assert_eq!(begun.elapsed(), FORBIDDEN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_by_a_quota_or_a_webhook_of_one_namespace_stops_no_event_of_others() {
        let entries = || vec![due(1, false), due(1, true), due(1, true), due(2, false)];
        let begun = Instant::now();
        for message in [
            r#"message: events.events.k8s.io "web.1" is forbidden: exceeded quota: events, used: 9, limited: 9"#,
            r#"message: admission webhook "policy.example.org" denied the request: no Events"#,
        ] {
            let answers = vec![(403, message); 3].leak();
            assert_eq!(asked(entries(), answers).await.len(), 4);
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
