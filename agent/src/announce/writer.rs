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
