//! Since when a pod has ended, from the agent's history of its IP.

use crate::commands::why::wall;
use epguard_common::{Uid, UidState};
use epguard_core::history::Chronicle;
use epguard_core::state::View;
use serde::{Deserialize, Serialize};

/// The moment at which a pod ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Since {
    /// When the agent learned of it, RFC 3339.
    pub at: String,
    /// Whether it was so when the agent's history began.
    pub or_earlier: bool,
}

/// The beginning of the time that lasts until now in which the pod was finished, deleted or dead, or the IP an orphan
/// IP.
pub fn since(chronicle: &Chronicle, dead: Uid) -> Option<Since> {
    let steps = chronicle.steps.iter().rev();
    let first = steps.take_while(|step| ended(&step.view, dead)).last()?;
    Some(Since {
        at: wall(chronicle, first.at_ms),
        or_earlier: first.at_ms <= chronicle.since_ms(),
    })
}

fn ended(view: &View, dead: Uid) -> bool {
    let mut pods = view.pods.iter();
    let is_dead = pods.any(|pod| Uid::parse(&pod.uid) == Some(dead) && pod.uid_state != UidState::Live);
    is_dead || view.terminated.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::history::Step;
    use epguard_core::state::PodView;

    const UID: &str = "145c3e45-83c2-43e7-82af-16a616c6f5e0";

    fn step(at_ms: u64, uid_state: UidState) -> Step {
        let pod = PodView {
            uid: UID.into(),
            uid_state,
            ..PodView::default()
        };
        let view = View {
            pods: vec![pod],
            ..View::default()
        };
        Step { at_ms, rv: 1, view }
    }

    fn told(steps: Vec<Step>) -> Option<(String, bool)> {
        let chronicle = Chronicle {
            ip: "10.0.0.1".parse().unwrap(),
            steps,
            view: View::default(),
            began_ms: 1_000,
            now_ms: 10_000,
            wall_ms: 10_000,
            truncated: false,
            mode: "observe".into(),
        };
        since(&chronicle, Uid::parse(UID).unwrap()).map(|since| (since.at, since.or_earlier))
    }

    #[test]
    fn a_finding_is_stale_since_the_last_end_of_the_pod() {
        let steps = vec![
            step(1_000, UidState::Retired),
            step(2_000, UidState::Live),
            step(3_000, UidState::Retired),
            step(4_000, UidState::Dead),
        ];
        assert_eq!(told(steps), Some(("1970-01-01T00:00:03.000Z".into(), false)));
    }

    #[test]
    fn an_end_in_the_first_step_may_be_older_and_without_a_step_there_is_no_time() {
        assert_eq!(
            told(vec![step(1_000, UidState::Dead)]),
            Some(("1970-01-01T00:00:01.000Z".into(), true))
        );
        assert_eq!(told(vec![step(1_000, UidState::Live)]), None);
        assert_eq!(told(vec![]), None);
    }
}
