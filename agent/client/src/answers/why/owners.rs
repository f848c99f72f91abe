//! The owners of the IP over time, as far as the API showed them.

use super::question::wall_time;
use epguard_common::UidState;
use epguard_core::history::Chronicle;
use epguard_core::state::{PodView, View};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The time in which a pod had the IP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerSpan {
    /// `namespace/name`.
    pub pod: String,
    /// Its UID.
    pub uid: String,
    /// The node that it ran on.
    pub node: Option<String>,
    /// Since when the API showed the pod with the IP, RFC 3339.
    pub from: String,
    /// Whether it had the IP before the history begins.
    pub or_earlier: bool,
    /// Until when; none: it still has the IP.
    pub to: Option<String>,
    /// Why it ended.
    pub ended: Option<Cow<'static, str>>,
}

/// All spans of the steps up to a time, in the order of their beginning. The current view is the
/// last step: it shows owners whose steps were dropped.
pub(super) fn owners_until(chronicle: &Chronicle, until_ms: u64) -> Vec<OwnerSpan> {
    let mut spans: Vec<OwnerSpan> = Vec::new();
    let past = chronicle.steps.iter().map(|step| (step.at_ms, &step.view));
    let steps = past.chain([(chronicle.now_ms, &chronicle.view)]);
    for (number, (at_ms, view)) in steps.enumerate() {
        if at_ms > until_ms {
            break;
        }
        let at = wall_time(chronicle, at_ms);
        let owners: Vec<&PodView> = view.pods.iter().filter(|pod| has_ip(pod)).collect();
        for span in spans.iter_mut().filter(|span| span.to.is_none()) {
            if !owners.iter().any(|pod| pod.uid == span.uid) {
                span.to = Some(at.clone());
                span.ended = Some(how_it_ended(view, &span.uid).into());
            }
        }
        for pod in owners {
            if !spans
                .iter()
                .any(|span| span.to.is_none() && span.uid == pod.uid)
            {
                spans.push(OwnerSpan {
                    pod: pod.name.clone(),
                    uid: pod.uid.clone(),
                    node: pod.node.clone(),
                    from: at.clone(),
                    or_earlier: number == 0 && at_ms <= chronicle.since_ms(),
                    to: None,
                    ended: None,
                });
            }
        }
    }
    spans
}

fn has_ip(pod: &PodView) -> bool {
    pod.shows && pod.present && pod.uid_state == UidState::Live
}

fn how_it_ended(view: &View, uid: &str) -> &'static str {
    match view.pods.iter().find(|pod| pod.uid == uid) {
        Some(pod) if pod.uid_state == UidState::Dead => "dead",
        Some(pod) if !pod.present && pod.uid_state == UidState::Retired => "deleted",
        Some(pod) if pod.uid_state == UidState::Retired => "finished",
        Some(pod) if pod.present => "shows it no more",
        _ => "gone from the API",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_whose_steps_were_dropped_is_shown_with_its_node() {
        let owner = PodView {
            name: "shop/a".into(),
            uid: "u-1".into(),
            node: Some("n1".into()),
            uid_state: UidState::Live,
            shows: true,
            present: true,
            ..PodView::default()
        };
        let view = View {
            synced: true,
            pods: vec![owner],
            ..View::default()
        };
        let chronicle = super::super::chronicle("fd00::5", view);
        let spans = owners_until(&chronicle, 5_000);
        let shown: Vec<_> = spans
            .iter()
            .map(|span| (&*span.pod, span.node.as_deref(), span.or_earlier))
            .collect();
        assert_eq!(shown, [("shop/a", Some("n1"), true)]);
        assert_eq!(owners_until(&chronicle, 4_000), []);
    }
}
