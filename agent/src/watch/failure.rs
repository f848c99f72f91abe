//! Why a request failed: how the protocol continues, and one line with the remedy for the log.

use super::protocol::{End, Step};
use kube::core::Status;
use std::time::Duration;

/// A request that failed.
#[derive(Debug)]
pub struct Failure {
    pub(super) end: End,
    /// Names the request, the cause and the remedy, in one line.
    pub error: String,
}

impl Failure {
    /// True if the account lacks the right.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.end == End::Refused
    }
}

/// The request, for the error message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) step: Step,
    /// The collection's path, `/api/v1/pods`.
    pub(super) path: &'a str,
}

impl Request<'_> {
    /// A request without a usable answer, or with a refusal.
    pub(super) fn failed(self, error: kube::Error) -> Failure {
        match error {
            kube::Error::Api(status) => self.refused(&status),
            kube::Error::Service(error) => self.broken(anyhow::Error::from_boxed(error)),
            error => self.broken(error),
        }
    }

    /// A refusal by the server, by an HTTP status or in the middle of a stream.
    pub(super) fn refused(self, status: &Status) -> Failure {
        let message = status.message.lines().next().unwrap_or_default();
        let (end, cause) = match (status.code, self.step) {
            (410, Step::Once) => (End::Expired, format!("the list expired ({message}); run it again")),
            (410, _) => {
                let cause = format!("the server's history is gone ({message}); listing again");
                (End::Expired, cause)
            }
            (400 | 422, Step::Stream) => {
                let cause = format!("the server streams no lists ({message}); listing in pages");
                (End::Unsupported, cause)
            }
            (401, _) => {
                let cause = format!(
                    "the API server does not accept the credentials ({message}); renew the token or certificate \
                     of a user or service account that is bound to {}",
                    self.role()
                );
                (End::Failed, cause)
            }
            (403, Step::Once) => {
                let remedy = format!("grant the account the verb list on {}", self.resource());
                (End::Refused, format!("forbidden ({message}); {remedy}"))
            }
            (403, _) => {
                let remedy = format!("bind the agent's account to {}", self.role());
                (End::Refused, format!("forbidden ({message}); {remedy}"))
            }
            (code, _) => {
                let cause = format!("the API server answers {code} ({message}); {}", self.next());
                (End::Failed, cause)
            }
        };
        self.failure(end, &cause)
    }

    /// No connection, a broken one, or an answer that is not the API's.
    pub(super) fn broken(self, error: impl Into<anyhow::Error>) -> Failure {
        let (causes, next) = (causes(&error.into()), self.next());
        let cause = format!("no usable answer from the API server ({causes}); {next}");
        self.failure(End::Unanswered, &cause)
    }

    /// A list that is older than the watch's last version before it was asked for.
    pub(super) fn rewound(self, before: u64, version: u64) -> Failure {
        self.failure(End::Expired, &rewound(before, version))
    }

    /// A stream that was silent for too long.
    pub(super) fn silent(self, silence: Duration) -> Failure {
        let seconds = silence.as_secs();
        let cause = format!("neither event nor bookmark for {seconds} s; connecting again");
        self.failure(End::Silent, &cause)
    }

    pub(super) fn failure(self, end: End, cause: &str) -> Failure {
        let verb = match self.step {
            Step::Pages | Step::List | Step::Once => "list",
            Step::Stream | Step::Watch(_) => "watch",
        };
        let error = format!("cannot {verb} {}: {cause}", self.resource());
        Failure { end, error }
    }

    fn next(&self) -> &'static str {
        match self.step {
            Step::Once => "see whether the kubeconfig's server is right and reachable",
            _ => "retrying",
        }
    }

    fn resource(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }

    /// The rights that the request needs.
    fn role(&self) -> String {
        let group = self.path.strip_prefix("/apis/").unwrap_or_default();
        let group = group.split('/').next().unwrap_or_default();
        let namespaced = self.path.split_once("/namespaces/");
        let role = match namespaced.and_then(|(_, rest)| rest.split_once('/')) {
            Some((namespace, _)) => format!("a Role in namespace {namespace}"),
            None => "a ClusterRole".to_owned(),
        };
        let resource = self.resource();
        format!(
            "{role} with apiGroups [\"{group}\"], resources [\"{resource}\"], verbs [\"list\", \"watch\"]"
        )
    }
}

/// The error message when the API's resourceVersions go back.
pub(super) fn rewound(before: u64, version: u64) -> String {
    format!(
        "the API went back in time, from resourceVersion {before} to {version}: was etcd restored? \
         Everything is listed again"
    )
}

/// The chain of causes in one line, without those that an outer one repeats.
fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            let colon = if text.is_empty() { "" } else { ": " };
            text.extend([colon, &cause]);
        }
    }
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(step: Step, code: u16) -> Failure {
        let path = "/apis/discovery.k8s.io/v1/endpointslices";
        Request { step, path }.refused(&Status::failure("because", "Reason").with_code(code))
    }

    #[test]
    fn forbidden_names_the_verb_the_resource_and_the_rule_to_grant() {
        assert_eq!(
            refusal(Step::Watch(7), 403).error,
            "cannot watch endpointslices: forbidden (because); bind the agent's account to a ClusterRole with \
             apiGroups [\"discovery.k8s.io\"], resources [\"endpointslices\"], verbs [\"list\", \"watch\"]"
        );
        assert!(refusal(Step::List, 401).error.starts_with("cannot list endpointslices: "));
    }

    #[test]
    fn for_a_namespaced_request_the_remedy_names_a_role() {
        let path = "/api/v1/namespaces/epguard/configmaps";
        let request = Request { step: Step::List, path };
        let refused = request.refused(&Status::failure("because", "Reason").with_code(403));
        assert_eq!(
            refused.error,
            "cannot list configmaps: forbidden (because); bind the agent's account to a Role in namespace epguard with \
             apiGroups [\"\"], resources [\"configmaps\"], verbs [\"list\", \"watch\"]"
        );
    }

    #[test]
    fn only_a_streamed_list_can_be_unsupported() {
        for code in [400, 422] {
            assert_eq!(refusal(Step::Stream, code).end, End::Unsupported);
            assert_eq!(refusal(Step::List, code).end, End::Failed);
            assert_eq!(refusal(Step::Watch(7), code).end, End::Failed);
        }
        assert_eq!(refusal(Step::Stream, 403).end, End::Refused);
    }

    #[test]
    fn status_410_means_expired_for_every_request() {
        for step in [Step::Stream, Step::Pages, Step::List, Step::Watch(7)] {
            assert_eq!(refusal(step, 410).end, End::Expired);
        }
    }

    #[test]
    fn causes_are_printed_once_and_in_one_line() {
        let inner = anyhow::anyhow!("connection refused\nby somebody");
        let middle = inner.context("tcp: connection refused\nby somebody");
        let error = middle.context("no connection");
        assert_eq!(causes(&error), "no connection: tcp: connection refused by somebody");
    }
}
