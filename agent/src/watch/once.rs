//! One consistent list, for a command that lists once and ends.

use super::collection::path_in;
use super::wire::{Page, describe};
use epguard_core::facts::{Ignored, Object};
use kube::{Client, api::ListParams, core};
use std::time::Duration;
use tokio::time::timeout;

/// Objects in a page, as in client-go.
const PAGE: u32 = 500;
/// Longest wait for a page.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why the list failed, in one line with the remedy.
#[derive(Debug)]
pub enum Refusal {
    /// The account lacks the right.
    Forbidden(String),
    /// Anything else.
    Failed(String),
}

/// Lists everything of a kind, or everything in one namespace. Returns also what could not be read.
pub async fn list_once<O: Object>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<(Vec<O>, Ignored), Refusal> {
    let resource = O::PATH.rsplit('/').next().unwrap_or(O::PATH);
    let broken = |cause: &dyn std::fmt::Display| Refusal::Failed(format!("cannot list {resource}: {cause}"));
    let path = match namespace {
        Some(namespace) => path_in::<O>(namespace),
        None => O::PATH.to_owned(),
    };
    let (mut objects, mut skipped) = (Vec::new(), Ignored::new());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let request = core::Request::new(&path)
            .list(&params)
            .map_err(|error| broken(&error))?;
        let answer = timeout(PATIENCE, client.request_text(request)).await;
        let body = answer
            .map_err(|_| {
                broken(&"the API server does not answer; see whether the kubeconfig's server is right")
            })?
            .map_err(|error| refusal(resource, error))?;
        let page = Page::parse(&body).map_err(|error| broken(&error))?;
        for json in page.objects.iter().map(|object| object.get().as_bytes()) {
            let mut ignored = Ignored::new();
            match O::read(json, &mut ignored) {
                Ok(object) => {
                    objects.push(object);
                    skipped.append(&mut ignored);
                }
                Err(error) => skipped.push(format!("{} {}: {error:#}", O::KIND, describe(json))),
            }
        }
        params.continue_token = page.next;
        if params.continue_token.is_none() {
            return Ok((objects, skipped));
        }
    }
}

/// The refusal of a list that failed.
#[must_use]
pub fn refusal(resource: &str, error: kube::Error) -> Refusal {
    let kube::Error::Api(status) = error else {
        let error = anyhow::Error::from(error);
        let cause = error.root_cause().to_string().replace('\n', " ");
        return Refusal::Failed(format!(
            "cannot list {resource}: no usable answer from the API server ({cause}); see whether the kubeconfig's \
             server is right and reachable"
        ));
    };
    let message = status.message.lines().next().unwrap_or_default();
    match status.code {
        403 => Refusal::Forbidden(format!(
            "cannot list {resource}: forbidden ({message}); grant the account the verb list on {resource}"
        )),
        401 => Refusal::Failed(format!(
            "cannot list {resource}: the API server does not accept the credentials ({message}); renew them"
        )),
        410 => Refusal::Failed(format!(
            "cannot list {resource}: the list expired before its last page ({message}); run it again"
        )),
        code => Refusal::Failed(format!(
            "cannot list {resource}: the API server answers {code} ({message})"
        )),
    }
}
