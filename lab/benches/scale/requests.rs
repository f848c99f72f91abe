//! The requests of the agent, as the API server counts them.

use epguard_lab::api::{Audit, Request};
use std::time::Instant;

/// How the agent calls itself.
const CLIENT: &str = "epguard/";

/// What kube-proxy reads as well.
pub(crate) const SLICES_AND_SERVICES: [&str; 2] = ["endpointslices", "services"];

/// Requests and octets of answers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) requests: f64,
    pub(crate) octets: f64,
}

impl std::ops::Sub for Cost {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { requests: self.requests - other.requests, octets: self.octets - other.octets }
    }
}

/// The cost so far of these resources; of all if none is named.
pub(crate) fn cost(audit: &Audit, resources: &[&str]) -> Cost {
    let asked = audit.requests().into_iter().filter(|request| request.user_agent.starts_with(CLIENT));
    let asked = asked.filter(|request| resources.is_empty() || resources.contains(&request.resource));
    asked.fold(Cost::default(), |cost, request| Cost {
        requests: cost.requests + 1.0,
        octets: cost.octets + as_f64(request.octets()),
    })
}

/// The cost of the requests since a moment that are no confirmations of a watch, and what they are.
pub(crate) fn opinions(audit: &Audit, since: Instant, namespace: &str) -> (Cost, Vec<String>) {
    let asked = audit.requests().into_iter();
    let asked = asked.filter(|request| request.user_agent.starts_with(CLIENT) && request.at >= since);
    let asked =
        asked.filter(|request| request.verb == "list" || request.verb == "watch" || request.verb == "get");
    let opinions: Vec<Request> = asked.filter(|request| !confirms(request, namespace)).collect();
    let cost = Cost {
        requests: as_f64(opinions.len() as u64),
        octets: opinions.iter().map(|request| as_f64(request.octets())).sum(),
    };
    let shown = opinions.iter().map(|request| format!("{} {}?{}", request.verb, request.path, request.query));
    (cost, shown.collect())
}

/// True if the request only shows whether a watch is up to date: it reads outside of this namespace, and few objects, a named
/// one, or a watch of seconds.
fn confirms(request: &Request, namespace: &str) -> bool {
    let number = |name: &str| {
        let mut pairs = request.query.split('&').filter_map(|pair| pair.split_once('='));
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
fn as_f64(number: u64) -> f64 {
    number as f64
}
