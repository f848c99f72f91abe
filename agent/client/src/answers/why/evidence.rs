//! The events in the history of an IP: the differences from one view to the next, in words.

use super::question::wall_time;
use crate::shared::output::after;
use epguard_common::UidState;
use epguard_core::history::Chronicle;
use epguard_core::state::{
    DenialView, EndpointView, NotProven, PodView, ServiceView, TargetView, View,
};
use serde::{Deserialize, Serialize};

/// A change that became known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceEvent {
    /// When the agent had applied it, RFC 3339.
    pub at: String,
    /// The newest resourceVersion that the agent had by then.
    pub rv: u64,
    /// The change, in one line.
    pub what: String,
}

/// All events up to a time, the oldest first.
pub(super) fn evidence_until(chronicle: &Chronicle, until_ms: u64) -> Vec<EvidenceEvent> {
    let mut before = View {
        synced: true,
        ..View::default()
    };
    let mut events = Vec::new();
    for step in &chronicle.steps {
        if step.at_ms > until_ms {
            break;
        }
        for what in changes(&before, &step.view) {
            events.push(EvidenceEvent {
                at: wall_time(chronicle, step.at_ms),
                rv: step.rv,
                what,
            });
        }
        before = step.view.clone();
    }
    events
}

/// The differences: pods first, then slices, then what follows from them.
fn changes(old: &View, new: &View) -> Vec<String> {
    let mut lines = Vec::new();
    if old.synced != new.synced {
        let what = if new.synced {
            "everything is listed again"
        } else {
            "the API went back in time: nothing is known"
        };
        lines.push(what.to_owned());
    }
    if !old.partial && new.partial {
        lines.push(
            "more Services list the IP, or more pods show it, than the history keeps".to_owned(),
        );
    }
    let unknown = PodView {
        uid_state: UidState::Live,
        present: true,
        ..PodView::default()
    };
    for pod in &new.pods {
        let before = old.pods.iter().find(|before| before.uid == pod.uid);
        pod_changes(before.unwrap_or(&unknown), pod, &mut lines);
    }
    for pod in &old.pods {
        // What is left out may be there.
        if !new.partial && !new.pods.iter().any(|now| now.uid == pod.uid) {
            let what = if pod.present {
                "shows the IP no more, or is gone"
            } else {
                "is no longer kept"
            };
            lines.push(format!("pod {} {what}", pod.name));
        }
    }
    let nothing = ServiceView::default();
    let mut verdicts = Vec::new();
    for service in &new.services {
        let before = old
            .services
            .iter()
            .find(|before| before.name == service.name);
        service_changes(
            before.unwrap_or(&nothing),
            service,
            &mut lines,
            &mut verdicts,
        );
    }
    for service in &old.services {
        if !new.partial && !new.services.iter().any(|now| now.name == service.name) {
            lines.push(format!(
                "{} no longer counts as a Service that listed it",
                service.name
            ));
        }
    }
    lines.append(&mut verdicts);
    match (&old.terminated, &new.terminated) {
        (None, Some(dead)) => {
            lines.push(format!(
                "the IP is unused on this node since {dead} died: terminated"
            ));
        }
        (Some(_), None) => {
            lines.push(
                "not terminated any more: the IP may be in use, or no packet is sent to it"
                    .to_owned(),
            );
        }
        _ => {}
    }
    lines
}

fn pod_changes(old: &PodView, new: &PodView, lines: &mut Vec<String>) {
    let mut say = |what: &str| lines.push(format!("pod {} {what}", new.name));
    if !old.shows && new.shows {
        let node = after(" on ", new.node.as_ref());
        say(&format!("({}){node} shows the IP", new.uid));
    }
    if !old.deleting && new.deleting {
        say("is being deleted: it has a deletionTimestamp");
    }
    if old.uid_state != new.uid_state {
        say(match (new.uid_state, new.present) {
            (UidState::Dead, _) => {
                "is dead: finished, and its kubelet reports that its network is torn down"
            }
            (UidState::Retired, true) => {
                "has finished: Succeeded or Failed; whether its containers run is not proven"
            }
            (UidState::Retired, false) => "is deleted; whether its containers run is not proven",
            _ => "is alive after all",
        });
    }
    if old.present
        && !new.present
        && (old.uid_state == new.uid_state || new.uid_state == UidState::Dead)
    {
        say("is gone from the API");
    } else if old.shows && !new.shows && new.present {
        say("shows the IP no more");
    }
}

fn service_changes(
    old: &ServiceView,
    new: &ServiceView,
    lines: &mut Vec<String>,
    verdicts: &mut Vec<String>,
) {
    let name = &new.name;
    for endpoint in &new.endpoints {
        let port = endpoint.port;
        let protocol = &endpoint.protocol;
        let before = old
            .endpoints
            .iter()
            .find(|before| before.port == port && before.protocol == *protocol);
        for target in &endpoint.targets {
            let target_before = before.and_then(|before| same_target(before, target));
            if let Some(what) = listing_change(target_before, target) {
                let pod = target.pod.as_deref().unwrap_or("no pod by name");
                lines.push(format!("{name} {what} on {protocol} {port} for {pod}"));
            }
        }
        let denial_before = before.and_then(|before| before.denial.as_ref());
        if let Some(what) = denial_change(denial_before, endpoint.denial.as_ref()) {
            verdicts.push(format!("{name} {protocol} {port}: {what}"));
        }
    }
    let holder = possible_holder(new);
    if possible_holder(old) != holder {
        match holder {
            Some(pod) => {
                lines.push(format!(
                    "pod {pod}, one of {name}'s own, may have the IP without showing it"
                ));
            }
            None if has_no_possible_holder(new) => {
                lines.push(format!(
                    "none of {name}'s own pods may have the IP without showing it any more"
                ));
            }
            None => {}
        }
    }
}

fn same_target<'a>(endpoint: &'a EndpointView, target: &TargetView) -> Option<&'a TargetView> {
    endpoint
        .targets
        .iter()
        .find(|other| other.uid == target.uid)
}

fn possible_holder(service: &ServiceView) -> Option<&String> {
    service
        .endpoints
        .iter()
        .find_map(|endpoint| match &endpoint.not_proven {
            Some(NotProven::PossibleHolder(pod, _) | NotProven::NodeNotSeen(pod, _)) => Some(pod),
            _ => None,
        })
}

/// Whether the proof has passed the step of possible holders. If it fails earlier, there may be
/// one, or not.
fn has_no_possible_holder(service: &ServiceView) -> bool {
    service.endpoints.iter().any(|endpoint| {
        let why = &endpoint.not_proven;
        matches!(
            why,
            None | Some(NotProven::OwnPod(_) | NotProven::NotLater(_))
        )
    })
}

fn listing_change(old: Option<&TargetView>, new: &TargetView) -> Option<&'static str> {
    let was = old.is_some_and(|old| old.listed);
    match (was, new.listed) {
        (false, true) if new.ready => Some("lists it, ready,"),
        (false, true) => Some("lists it, not ready,"),
        (true, false) => Some("lists it no more"),
        (true, true) if old.is_some_and(|old| old.ready == new.ready) => None,
        (true, true) if new.ready => Some("has it ready"),
        (true, true) => Some("has it not ready"),
        (false, false) => None,
    }
}

fn denial_change(old: Option<&DenialView>, new: Option<&DenialView>) -> Option<String> {
    match (old, new) {
        (_, Some(new)) if old != Some(new) => {
            let stopped = if new.stopped {
                ", stopped until a second list agrees"
            } else {
                ""
            };
            let which = packets(new);
            Some(format!("denied as {}{stopped}: {which}", new.reason))
        }
        (Some(_), None) => Some("denied no more".to_owned()),
        _ => None,
    }
}

/// Which packets a denial is about.
pub(super) fn packets(denial: &DenialView) -> &'static str {
    if denial.openers_only {
        "new connections"
    } else {
        "every packet"
    }
}
