//! Why a request failed: how the protocol continues, and one line with the remedy for the log.

use super::request_error::RequestError;
use super::step::{End, Step};
use kube::core::Status;
use std::error::Error;

/// A request that failed.
#[derive(Debug)]
pub struct Failure {
    pub(super) end: End,
    /// Names the request, the cause and the remedy, in one line.
    pub error: String,
}

impl Failure {
    /// The failure of a request for a collection's path, `/api/v1/pods`.
    pub(super) fn of(step: Step, path: &str, error: &RequestError) -> Self {
        let (end, cause) = match error {
            RequestError::Refused(status) => {
                let refusal = Refusal::of(step, path, status);
                (refusal.end, refusal.cause)
            }
            RequestError::Unanswered(cause) => {
                let cause: &(dyn Error + 'static) = &**cause;
                (End::Unanswered, unusable_answer(step, &causes(cause)))
            }
            RequestError::TooLarge(octets) => {
                let cause = format!("an answer of more than {octets} octets");
                (End::Unanswered, unusable_answer(step, &cause))
            }
            RequestError::NotWhole(count) => {
                let cause = format!(
                    "{count} objects are not all: the denials that wait for this list stay stopped"
                );
                (End::Unanswered, unusable_answer(step, &cause))
            }
            RequestError::Unreadable(object) => {
                let cause = format!("{object} cannot be read, so the list proves nothing");
                (End::Unanswered, unusable_answer(step, &cause))
            }
            RequestError::Silent(time) => {
                let seconds = time.as_secs();
                let cause = format!("neither event nor bookmark for {seconds} s; connecting again");
                (End::Silent, cause)
            }
            RequestError::StoppedBehind { stream, elsewhere } => {
                let cause = format!(
                    "a list shows resourceVersion {elsewhere}, and the watch has stopped at {stream}; \
                     connecting again"
                );
                (End::Failed, cause)
            }
            RequestError::NoBookmark(version) => {
                let cause = format!(
                    "no bookmark reaches resourceVersion {version} of a list, so nothing proves the watch \
                     complete; a quiet collection needs Kubernetes 1.31 or later, or etcd with \
                     --watch-progress-notify-interval=5s"
                );
                (End::Failed, cause)
            }
            RequestError::WentBack(went_back) => (End::Expired, went_back.to_string()),
        };
        let verb = match step {
            Step::Once | Step::Pages | Step::List => "list",
            Step::Stream | Step::Watch(_) => "watch",
        };
        let error = format!("cannot {verb} {}: {cause}", resource(path));
        Self { end, error }
    }

    /// True if the account lacks the right.
    pub fn is_forbidden(&self) -> bool {
        self.end == End::Refused
    }
}

/// A cause for no connection, a broken one, or an answer of no use, with what happens next.
fn unusable_answer(step: Step, cause: &str) -> String {
    let next = after_failure(step);
    format!("no usable answer from the API server ({cause}); {next}")
}

/// What happens after a failed request, or what the reader can do.
const fn after_failure(step: Step) -> &'static str {
    match step {
        Step::Once => "see whether the kubeconfig's server is right and reachable",
        Step::Pages | Step::List | Step::Stream | Step::Watch(_) => "retrying",
    }
}

/// A refusal by the server.
struct Refusal {
    end: End,
    cause: String,
}

impl Refusal {
    fn of(step: Step, path: &str, status: &Status) -> Self {
        let message = status.message.lines().next().unwrap_or_default();
        let (end, what, remedy) = match (status.code, step) {
            (410, Step::Once) => (End::Expired, "the list expired", "run it again".to_owned()),
            (410, _) => (
                End::Expired,
                "the server's history is gone",
                "listing again".to_owned(),
            ),
            (400 | 422, Step::Stream) => (
                End::Unsupported,
                "the server streams no lists",
                "listing in pages".to_owned(),
            ),
            (401, _) => (
                End::Failed,
                "the API server does not accept the credentials",
                format!(
                    "renew the token or certificate of a user or service account that is bound to {}",
                    role(path)
                ),
            ),
            (403, Step::Once) => (
                End::Refused,
                "forbidden",
                format!("grant the account the verb list on {}", resource(path)),
            ),
            (403, _) => (
                End::Refused,
                "forbidden",
                format!("bind the agent's account to {}", role(path)),
            ),
            (code, _) => {
                let next = after_failure(step);
                return Self {
                    end: End::Failed,
                    cause: format!("the API server answers {code} ({message}); {next}"),
                };
            }
        };
        Self {
            end,
            cause: format!("{what} ({message}); {remedy}"),
        }
    }
}

fn resource(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The rights that requests for a path need.
fn role(path: &str) -> String {
    let group = path.strip_prefix("/apis/").unwrap_or_default();
    let group = group.split('/').next().unwrap_or_default();
    let namespaced = path.split_once("/namespaces/");
    let role = match namespaced.and_then(|(_, rest)| rest.split_once('/')) {
        Some((namespace, _)) => format!("a Role in namespace {namespace}"),
        None => "a ClusterRole".to_owned(),
    };
    let resource = resource(path);
    format!(
        "{role} with apiGroups [\"{group}\"], resources [\"{resource}\"], verbs [\"list\", \"watch\"]"
    )
}

/// The chain of causes in one line, without those that an outer one repeats.
fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in anyhow::Chain::new(error).map(ToString::to_string) {
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

    const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";

    fn refusal(path: &str, step: Step, code: u16) -> Failure {
        let status = Status::failure("because", "Reason").with_code(code);
        Failure::of(step, path, &RequestError::Refused(status.boxed()))
    }

    #[test]
    fn forbidden_names_the_verb_the_resource_and_the_rule_to_grant() {
        assert_eq!(
            refusal(SLICES, Step::Watch(7), 403).error,
            "cannot watch endpointslices: forbidden (because); bind the agent's account to a ClusterRole with \
             apiGroups [\"discovery.k8s.io\"], resources [\"endpointslices\"], verbs [\"list\", \"watch\"]"
        );
        assert!(
            refusal(SLICES, Step::List, 401)
                .error
                .starts_with("cannot list endpointslices: ")
        );
        assert_eq!(
            refusal("/api/v1/namespaces/epguard/configmaps", Step::List, 403).error,
            "cannot list configmaps: forbidden (because); bind the agent's account to a Role in namespace epguard with \
             apiGroups [\"\"], resources [\"configmaps\"], verbs [\"list\", \"watch\"]"
        );
    }

    #[test]
    fn only_a_streamed_list_can_be_unsupported_and_410_means_expired_for_every_request() {
        for (step, code, end) in [
            (Step::Stream, 400, End::Unsupported),
            (Step::Stream, 422, End::Unsupported),
            (Step::List, 400, End::Failed),
            (Step::List, 422, End::Failed),
            (Step::Watch(7), 400, End::Failed),
            (Step::Watch(7), 422, End::Failed),
            (Step::Stream, 403, End::Refused),
            (Step::Stream, 410, End::Expired),
            (Step::Pages, 410, End::Expired),
            (Step::List, 410, End::Expired),
            (Step::Watch(7), 410, End::Expired),
        ] {
            assert_eq!(refusal(SLICES, step, code).end, end, "{step:?} {code}");
        }
    }

    #[test]
    fn causes_are_printed_once_and_in_one_line() {
        let inner = anyhow::anyhow!("connection refused\nby somebody");
        let middle = inner.context("tcp: connection refused\nby somebody");
        let error = middle.context("no connection");
        assert_eq!(
            causes(error.as_ref()),
            "no connection: tcp: connection refused by somebody"
        );
    }
}
