//! Writes Events, one after the other, and pauses while the API server forbids it.

use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::core::{
    Request, Status,
    params::{Patch, PatchParams, PostParams},
};
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

/// An Event to write.
#[derive(Debug)]
pub struct Entry {
    /// The complete Event.
    pub event: Event,
    /// True if it was written before: then only its series is written.
    pub repeated: bool,
}

/// Writes Events until the queue is closed. If the API server cannot take an Event now, retries it for a minute. All
/// other Events wait meanwhile: the server cannot take them either.
pub async fn write(client: Client, mut entries: mpsc::Receiver<Entry>) {
    let mut may_patch = true;
    while let Some(entry) = entries.recv().await {
        if entry.repeated && !may_patch {
            continue;
        }
        match retry(&client, &entry).await {
            Ok(()) => {}
            Err(kube::Error::Api(status)) if is_ending(&status) => {}
            // The role may be missing, or may be created within the next minutes. Without the right to patch, each
            // Event is written once, without later counts.
            Err(kube::Error::Api(status)) if lacks_role(&status) && entry.repeated => {
                may_patch = false;
                refused("patch", &status, "their counts stay unchanged until the agent restarts");
            }
            Err(kube::Error::Api(status)) if lacks_role(&status) => {
                refused("create", &status, "none are written for the next 10 minutes");
                sleep(FORBIDDEN).await;
            }
            Err(error) => tracing::warn!(
                error = cause(error),
                event = entry.event.metadata.name,
                "cannot write an Event; `epguard drops` shows all denials"
            ),
        }
    }
}

async fn retry(client: &Client, entry: &Entry) -> Result<(), kube::Error> {
    for rest in RESTS {
        match send(client, entry).await {
            Err(error) if may_pass(&error) => sleep(Duration::from_secs(rest)).await,
            ended => return ended,
        }
    }
    send(client, entry).await
}

fn refused(verb: &str, status: &Status, until: &str) {
    let message = status.message.lines().next().unwrap_or_default();
    tracing::warn!(
        "cannot {verb} Events: forbidden ({message}); allow the agent's account create and patch on events in \
         events.k8s.io, or give it --events none; {until}"
    );
}

/// In one line. The text of a refusal is the API server's: kube adds the whole answer as a struct.
fn cause(error: kube::Error) -> String {
    let text = match error {
        kube::Error::Api(status) => status.message.clone(),
        error => anyhow::Error::from(error).root_cause().to_string(),
    };
    text.replace('\n', " ")
}

/// True if the account may not write Events, by the text of the API server (`responsewriters.forbiddenMessage`). A
/// quota or an admission webhook of one namespace also refuses with a 403.
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
        _ => true,
    }
}

async fn send(client: &Client, entry: &Entry) -> Result<(), kube::Error> {
    let Entry { event, repeated } = entry;
    match send_as(client, event, *repeated).await {
        // The Event may be gone: API servers delete Events after some time.
        Err(kube::Error::Api(status)) if *repeated && status.code == 404 => {
            send_as(client, event, false).await
        }
        answer => answer,
    }
}

async fn send_as(client: &Client, event: &Event, repeated: bool) -> Result<(), kube::Error> {
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
    answer.map_err(|late| kube::Error::Service(late.into()))?.map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::event::{Text, event};
    use super::*;
    use crate::daemon::report::kube_events::Subject;
    use crate::daemon::report::kube_events::series::Course;
    use bytes::Bytes;
    use http_body_util::Full;
    use hyper::{Response, StatusCode};
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};
    use tokio::time::Instant;

    fn entry(number: u64, repeated: bool) -> Entry {
        let about = Subject { kind: "Service", name: ("shop".into(), "web".into()), uid: None };
        let moment = Duration::from_secs(1);
        let course = Course { about, number, count: 2, first: moment, last: moment, written: None };
        let text = Text { reason: "", action: "", note: String::new() };
        let event = event(&text, &course, "n", moment, "2026-03-01T12:00:00Z".parse().unwrap());
        Entry { event, repeated }
    }

    /// The requests to a server that gives these answers in order, each with a code and a cause, and then accepts
    /// everything.
    async fn asked(entries: Vec<Entry>, answers: &'static [(u16, &str)]) -> Vec<String> {
        const MESSAGE: &str =
            r#"events.events.k8s.io is forbidden: User "a" cannot create resource "events""#;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, mut answers) = (Arc::clone(&asked), answers.iter());
        let server = tower::service_fn(move |request: hyper::Request<kube::client::Body>| {
            let name = request.uri().path().rsplit('/').next().unwrap().to_owned();
            log.lock().unwrap().push(format!("{} {name}", request.method()));
            let (code, cause) = *answers.next().unwrap_or(&(201, ""));
            let details = json!({"causes": [{"reason": cause}]});
            let message = cause.strip_prefix("message: ").unwrap_or(MESSAGE);
            let status = json!({"kind": "Status", "code": code, "message": message, "details": details});
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
    async fn an_event_that_the_server_deleted_is_written_anew() {
        let entries = vec![entry(1, false), entry(1, true), entry(1, true)];
        assert_eq!(
            asked(entries, &[(201, ""), (200, ""), (404, "")]).await,
            ["POST events", "PATCH web.0000000000000001", "PATCH web.0000000000000001", "POST events"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_refusal_nothing_is_written_for_ten_minutes_unless_the_namespace_ends() {
        let two = || vec![entry(1, false), entry(2, false)];
        let begun = Instant::now();
        assert_eq!(asked(two(), &[(403, "NamespaceTerminating")]).await.len(), 2);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(asked(two(), &[(403, "")]).await.len(), 2);
        assert_eq!(begun.elapsed(), FORBIDDEN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_by_a_quota_or_a_webhook_of_one_namespace_stops_no_event_of_others() {
        let entries = || vec![entry(1, false), entry(1, true), entry(1, true), entry(2, false)];
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

    #[tokio::test(start_paused = true)]
    async fn without_the_right_to_patch_events_are_still_created() {
        let entries = vec![entry(1, false), entry(1, true), entry(1, true), entry(2, false)];
        assert_eq!(
            asked(entries, &[(201, ""), (403, "")]).await,
            ["POST events", "PATCH web.0000000000000001", "POST events"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_repeated_after_a_server_error_but_not_after_a_refusal() {
        let one = || vec![entry(1, false)];
        assert_eq!(asked(one(), &[(503, ""), (429, "")]).await.len(), 3);
        assert_eq!(asked(one(), &[(500, ""); 99]).await.len(), 1 + RESTS.len());
        assert_eq!(asked(one(), &[(422, ""); 99]).await.len(), 1);
    }
}
