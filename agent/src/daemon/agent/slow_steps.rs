//! The object behind a step of the loop that took long: it kept all others waiting.

use epguard_core::facts::{Change, Fact};
use std::time::Duration;
use tokio::time::Instant;

/// Steps that take longer are logged.
const LONG: Duration = Duration::from_millis(100);
/// Most lines: one in this time.
const PAUSE: Duration = Duration::from_secs(1);

/// When the last line was logged, and how many were left out since.
#[derive(Debug, Default)]
pub struct SlowSteps {
    logged: Option<Instant>,
    left_out: usize,
}

impl SlowSteps {
    /// Logs a step that began then, if it took long. `object` names what it was about.
    pub fn note(&mut self, began: Instant, object: impl FnOnce() -> String) {
        let took = began.elapsed();
        if took < LONG {
            return;
        }
        if self.logged.is_some_and(|logged| logged.elapsed() < PAUSE) {
            self.left_out += 1;
            return;
        }
        self.logged = Some(Instant::now());
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let left_out = std::mem::take(&mut self.left_out);
        let object = object();
        tracing::warn!(
            object,
            took_ms,
            left_out,
            "a step of the main loop took long: all others waited for it"
        );
    }
}

/// Kind and name of what a fact is about.
pub fn describe(fact: &Fact) -> String {
    match fact {
        Fact::Pod(change) => change_of("Pod", change, |pod| pod.name.to_string()),
        Fact::Slice(change) => change_of("EndpointSlice", change, |slice| slice.name.to_string()),
        Fact::Service(change) => change_of("Service", change, |service| service.name.to_string()),
        Fact::Node(change) => change_of("Node", change, |node| node.name.to_string()),
        Fact::Namespace(change) => {
            change_of("Namespace", change, |namespace| namespace.name.to_string())
        }
        Fact::ModePolicy(_) => "mode policy".to_owned(),
        Fact::NodeSeen(seen) => format!("Node {}", seen.name),
        Fact::LocalAddresses(_) | Fact::Presence(_) | Fact::SocketLb(_) => {
            "report of this node".to_owned()
        }
    }
}

fn change_of<T>(kind: &str, change: &Change<T>, name: impl Fn(&T) -> String) -> String {
    match change {
        Change::Applied(object) | Change::Deleted(object) | Change::Gone(object) => {
            format!("{kind} {}", name(object))
        }
        Change::Reset(objects) => format!("{kind}, list of {}", objects.len()),
        Change::Part(part) => format!("{kind}, list of {}", part.objects.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::{Object as _, Service};

    #[test]
    fn a_step_that_took_long_is_logged_once_a_second_and_the_others_are_counted() {
        let (mut steps, mut logged) = (SlowSteps::default(), 0);
        let now = Instant::now();
        for ago in [Duration::ZERO, LONG, LONG, LONG] {
            steps.note(now.checked_sub(ago).unwrap(), || {
                logged += 1;
                String::new()
            });
        }
        assert_eq!((logged, steps.left_out), (1, 2));
    }

    #[test]
    fn a_fact_is_described_by_the_kind_and_the_name_of_its_object() {
        let json = br#"{"metadata": {"namespace": "shop", "name": "web", "uid": "1b9c6a86-6d5e-4a5c-9a3e-9d2f3c0f6a11"}}"#;
        let service = Service::parse(json).unwrap();
        let list = Fact::Service(Change::Reset(vec![service.clone()]));
        assert_eq!(
            describe(&Fact::Service(Change::Applied(service))),
            "Service shop/web"
        );
        assert_eq!(describe(&list), "Service, list of 1");
    }
}
