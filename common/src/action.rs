//! What is done with denied packets, and what becomes of each packet that is judged.

use crate::table::table;
use crate::{Count, PerReason};

table! {
    /// What is done with a denied packet.
    #[derive(Default)]
    pub enum Action (choosers: Choosers) {
        #[default]
        Unset = 0, "unset", Choosers { operator: false, service: false },
            "Not set: in a denial the action of CONFIG, in CONFIG drop";
        Drop = 1, "drop", Choosers { operator: true, service: true },
            "Drop it silently";
        Reject = 2, "reject", Choosers { operator: true, service: true },
            "Drop it, and send the sender a TCP RST or an ICMP error";
        Redirect = 3, "redirect", Choosers { operator: false, service: true },
            "Send a flow that opens to a live endpoint of the same Service; reject it where there is none";
    }
}

/// Who may choose an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choosers {
    /// The operator may, for all denials or for those of a reason.
    pub operator: bool,
    /// The owner of a Service may, by annotation.
    pub service: bool,
}

impl Action {
    /// Reads a number from a map. An unknown number is unset.
    #[inline]
    pub const fn from_raw(raw: u32) -> Self {
        match Self::from_number(raw) {
            Some(action) => action,
            None => Self::Unset,
        }
    }

    /// The actions that the operator may choose.
    pub fn all_of_operator() -> impl Iterator<Item = Self> + Clone {
        Self::ALL
            .into_iter()
            .filter(|action| action.choosers().operator)
    }

    /// The one of them with this name.
    pub fn of_operator(name: &str) -> Option<Self> {
        Self::all_of_operator().find(|action| action.as_str() == name)
    }

    /// This action, or the other one if this is unset.
    #[inline]
    pub const fn or(self, other: Self) -> Self {
        match self {
            Self::Unset => other,
            chosen => chosen,
        }
    }
}

/// The action of each reason.
pub type ReasonActions = PerReason<Action>;

table! {
    /// What became of a packet to a suspect, or of the event about it.
    pub enum Outcome (effect: Effect) {
        Dropped = 0, "dropped", Effect::Stopped(Action::Drop), "Denied: dropped silently";
        Observed = 1, "observed", Effect::Observed, "Would have been denied; the mode is observe";
        Off = 2, "off", Effect::Passed, "The mode of this reason is off";
        LeaseExpired = 3, "lease-expired", Effect::Passed,
            "The agent has not renewed the lease, so the proof may be out of date";
        NoIntent = 4, "no-intent", Effect::Passed,
            "No Service with a denial is meant: direct traffic, a reply, or another Service";
        NotDenied = 5, "not-denied", Effect::Passed,
            "The Service that is meant has no denial for this IP and port";
        Established = 6, "established", Effect::Passed, "A retired pod may still serve the flows it has";
        NoConnection = 7, "no-connection", Effect::Passed,
            "No translator has recorded the packet's connection, as for untracked or offloaded packets";
        Draining = 8, "draining", Effect::Passed, "To a terminating pod, which may still serve (KEP-1669)";
        EventLost = 9, "event-lost", Effect::Beside("events_lost"),
            "Denials that the ring buffer had no room to report";
        EventSuppressed = 10, "event-suppressed", Effect::Beside("events_suppressed"),
            "Denials beyond the rate at which one suspect is reported";
        Lifted = 11, "lifted", Effect::Passed, "A packet from the IP was seen, so it is in use";
        Rejected = 13, "rejected", Effect::Stopped(Action::Reject),
            "Denied: dropped, and answered with a TCP RST or an ICMP error";
        AnswerSuppressed = 14, "answer-suppressed", Effect::Beside("answers_suppressed"),
            "Denied packets that were dropped, since a rate limit left no answer";
        AnswerFailed = 15, "answer-failed", Effect::Beside("answers_failed"),
            "Denied packets that were dropped, since the answer could not be sent";
        Redirected = 16, "redirected", Effect::Stopped(Action::Redirect),
            "Denied, or of a flow that was: sent to a live endpoint instead";
        RedirectFailed = 17, "redirect-failed", Effect::Beside("redirects_failed"),
            "Packets of redirected flows that were dropped, since they could not be sent to the endpoint";
        UnreadableConnection = 19, "unreadable-connection", Effect::Passed,
            "The record of the packet's connection contradicts the packet";
        BeyondShare = 20, "beyond-share", Effect::Beside("redirects_beyond_share"),
            "Redirected connections beyond their client's share of FLOWS, which a flood may reset";
        RedirectRefused = 21, "redirect-refused", Effect::Beside("redirects_refused"),
            "Packets of flows that were rejected, since redirecting them could have reset another connection";
        RefusedUnseen = 22, "refused-unseen", Effect::Beside("calls_refused_unseen"),
            "Calls that were refused instead of dropped, since their packets may meet no hook";
        NotRecorded = 23, "not-recorded", Effect::Beside("sockets_not_recorded"),
            "Connected sockets that had no room for the Service that they mean, so that later packets pass";
        UnknownSocket = 24, "unknown-socket", Effect::Beside("packets_of_unknown_sockets"),
            "Packets to a suspect, beside a socket load balancer, whose socket shows no Service";
        Translated = 25, "translated", Effect::Beside("calls_translated"),
            "Calls of sockets for which a socket load balancer has chosen an endpoint; datagrams with an address of their own only \
             while an IP is stale";
        Unanswerable = 26, "unanswerable", Effect::Beside("answers_impossible"),
            "Denied packets that were dropped, since an answer would pass other programs in the endpoint's name, or not arrive";
        Announced = 27, "announced", Effect::Passed,
            "The node's way to the orphan IP is not that of its range, or somebody has answered for it on the node's link";
    }
}

/// What an outcome means for the packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Effect {
    /// By this action the packet does not reach its destination.
    Stopped(Action),
    /// It passes; in enforce it would have been stopped.
    Observed,
    /// It passes.
    Passed,
    /// Counted beside what became of a packet, under this name in the metrics.
    Beside(&'static str),
}

impl Outcome {
    /// The outcomes of denied packets: stopped, then observed.
    pub fn of_denials() -> impl Iterator<Item = Self> + Clone {
        Self::stopped().chain([Self::Observed])
    }

    /// The outcomes of enforced denials: the packet does not reach its destination.
    pub fn stopped() -> impl Iterator<Item = Self> + Clone {
        Self::ALL
            .into_iter()
            .filter(|outcome| matches!(outcome.effect(), Effect::Stopped(_)))
    }
}

/// Value of `DENIAL_COUNTS`, per CPU, by the key of the denial (`terminated`: Service, port and
/// protocol 0): the denied packets by what became of them.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DenialCount {
    /// Passed, since the denial is only observed.
    pub observed: Count,
    /// Dropped silently.
    pub dropped: Count,
    /// Dropped, and the sender got an answer.
    pub rejected: Count,
    /// Sent to a live endpoint.
    pub redirected: Count,
    /// Always 0.
    pub reserved: Count,
    /// When the last one was denied, `CLOCK_BOOTTIME`.
    pub last_ns: u64,
}

impl DenialCount {
    /// The count of an outcome; `None` for one that a denied packet cannot have.
    #[inline(always)]
    pub const fn get_mut(&mut self, outcome: Outcome) -> Option<&mut Count> {
        match outcome {
            Outcome::Observed => Some(&mut self.observed),
            Outcome::Dropped => Some(&mut self.dropped),
            Outcome::Rejected => Some(&mut self.rejected),
            Outcome::Redirected => Some(&mut self.redirected),
            _ => None,
        }
    }

    /// Each outcome with its count.
    pub fn each(mut self) -> impl Iterator<Item = (Outcome, Count)> {
        Outcome::of_denials().filter_map(move |outcome| Some((outcome, *self.get_mut(outcome)?)))
    }

    /// The sum over processors.
    pub fn plus(mut self, other: &Self) -> Self {
        for (outcome, more) in other.each() {
            if let Some(count) = self.get_mut(outcome) {
                *count = count.plus(more);
            }
        }
        self.last_ns = self.last_ns.max(other.last_ns);
        self
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_that_are_no_action_choose_nothing() {
        for garbage in [99, u32::MAX] {
            assert_eq!(Action::from_raw(garbage), Action::Unset);
        }
    }

    #[test]
    fn every_action_has_one_outcome_and_every_denial_has_a_count_of_its_own() {
        let actions: BTreeSet<Effect> = Outcome::stopped().map(Outcome::effect).collect();
        let chosen = Action::ALL
            .into_iter()
            .filter(|action| *action != Action::Unset);
        assert_eq!(actions, chosen.map(Effect::Stopped).collect());
        assert_eq!(Outcome::stopped().count(), actions.len());

        let mut counts = DenialCount::default();
        for outcome in Outcome::ALL {
            if let Some(count) = counts.get_mut(outcome) {
                assert_eq!(*count, Count::default(), "{outcome} shares its count");
                *count = Count::one(1, false);
            } else {
                assert!(
                    !Outcome::of_denials().any(|denial| denial == outcome),
                    "{outcome} has no count"
                );
            }
        }
        assert_eq!(counts.each().count(), Outcome::of_denials().count());
    }
}
