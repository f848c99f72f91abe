//! Whether packets of pods can carry the Service that they are aimed at. Pure.

use super::problem::Problem;
use epguard_core::carrier::{Carrier, Decision};

/// The problem, and its remedy, if packets cannot carry the Service that they are aimed at.
pub(super) fn uncarried(carrier: &Decision) -> Option<Problem> {
    let by = carrier.decided_by.join(", ");
    match (carrier.in_use, carrier.services_without_room) {
        (Carrier::None, _) if !carrier.why.is_empty() => Some(Problem::new(
            format!(
                "packets of pods carry no intent, so stale ones pass: {} {by}",
                carrier.why
            )
            .trim_end(),
            "only the node's own processes and direct packets are judged; rejected and redirected packets are dropped. \
             See \"Neighbours\" in docs/neighbours.md",
        )),
        (Carrier::TcIndexHigh, services @ 1..) => Some(Problem::new(
            format!("{services} Services have no number that fits beside {by}, so their stale packets pass"),
            "there are 1,015 such numbers, shared among the namespaces; exclude ranges that need no protection \
             (--protect-cidr, --exclude-cidr)",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(carrier: &Decision) -> Option<String> {
        uncarried(carrier).map(|problem| problem.what)
    }

    #[test]
    fn packets_that_carry_no_intent_are_a_problem_that_names_the_program() {
        let mut carrier = Decision {
            why: "other programs use more than the low five bits of tc_index".into(),
            decided_by: vec!["greedy (id 7)".into()],
            ..Decision::default()
        };
        let none = "packets of pods carry no intent, so stale ones pass: other programs use more than the low five bits of \
                    tc_index greedy (id 7)";
        assert_eq!(what(&carrier).as_deref(), Some(none));
        carrier.in_use = Carrier::TcIndexHigh;
        assert_eq!(what(&carrier), None);
        carrier.services_without_room = 3;
        let room = "3 Services have no number that fits beside greedy (id 7), so their stale packets pass";
        assert_eq!(what(&carrier).as_deref(), Some(room));
    }
}
