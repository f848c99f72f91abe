//! The requests of the agent, as the API server counts them.

use epguard_lab::api::{Audit, LoggedRequest};
use std::time::Instant;

/// How the agent calls itself.
const CLIENT: &str = "epguard/";

/// The agent's requests so far.
pub(crate) fn asked(audit: &Audit) -> Vec<LoggedRequest> {
    let mut requests = audit.requests();
    requests.retain(|request| request.user_agent.starts_with(CLIENT));
    requests
}

/// The requests since a moment that read, and are no freshness checks of a watch.
pub(crate) fn second_lists(audit: &Audit, since: Instant, namespace: &str) -> Vec<LoggedRequest> {
    let mut requests = asked(audit);
    requests.retain(|request| {
        let reads = ["list", "watch", "get"].contains(&&*request.verb);
        reads && request.at >= since && !is_freshness_check(request, namespace)
    });
    requests
}

/// Octets of the answers so far.
pub(crate) fn octets<'a>(requests: impl IntoIterator<Item = &'a LoggedRequest>) -> f64 {
    as_f64(requests.into_iter().map(LoggedRequest::octets).sum())
}

/// True if the request only shows whether a watch is up to date: it reads outside of this
/// namespace, and few objects, a named one, or a watch of seconds.
fn is_freshness_check(request: &LoggedRequest, namespace: &str) -> bool {
    let number = |name: &str| {
        let mut pairs = request
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        pairs.find(|(own, _)| *own == name)?.1.parse::<u32>().ok()
    };
    let is_small = number("limit").is_some_and(|limit| limit <= 51);
    let is_short = number("timeoutSeconds").is_some_and(|seconds| seconds <= 3);
    let mut parameters = request.query.split('&');
    let is_named =
        parameters.any(|pair| pair.starts_with("fieldSelector=") && pair.contains("metadata.name"));
    let elsewhere = !request.path.contains(&format!("/namespaces/{namespace}/"));
    elsewhere && (is_small || is_short || is_named)
}

#[allow(clippy::cast_precision_loss, reason = "octets below 2^53")]
pub(crate) fn as_f64(number: u64) -> f64 {
    number as f64
}
