//! Reasons, outcomes, and the verdict on a packet.

/// Why a packet is, or would be, denied. The meaning is fixed by the proofs in `judge`.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// No denial was found.
    Nothing = 0,
    /// The pod that the Service meant is dead, and no pod claims its IP.
    DeadBackend = 1,
    /// The pod that the Service meant is dead or retired, and a pod of another owner claims its IP.
    Reused = 2,
    /// The pod that the Service meant is retired; Kubernetes intends no new flow for it.
    RetiredBackend = 3,
    /// The packet goes to an orphan IP without a Service: its last pod is dead, and it is unused on its node.
    Terminated = 4,
}

impl Reason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Nothing,
        Self::DeadBackend,
        Self::Reused,
        Self::RetiredBackend,
        Self::Terminated,
    ];

    /// Reads a number from a map; `None` for an unknown one.
    #[inline]
    #[must_use]
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::Nothing),
            1 => Some(Self::DeadBackend),
            2 => Some(Self::Reused),
            3 => Some(Self::RetiredBackend),
            4 => Some(Self::Terminated),
            _ => None,
        }
    }

    /// Parses a reason to deny; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|reason| *reason != Self::Nothing && reason.as_str() == text)
    }

    /// As logs and metrics write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::DeadBackend => "dead-backend",
            Self::Reused => "reused",
            Self::RetiredBackend => "retired-backend",
            Self::Terminated => "terminated",
        }
    }
}

/// What became of a packet to a suspect, or of the event about it.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// Denied: dropped silently.
    Dropped = 0,
    /// Would have been denied; the mode is observe.
    Observed = 1,
    /// Passed: the mode of this reason is off.
    Off = 2,
    /// Passed: the agent has not renewed the lease, so the proof may be out of date.
    LeaseExpired = 3,
    /// Passed: no Service is known to be meant (direct traffic, a reply, or the intent was lost).
    NoIntent = 4,
    /// Passed: the Service that is meant has no denial for this IP and port.
    NotDenied = 5,
    /// Passed: a retired pod may still serve the flows it has.
    Established = 6,
    /// Passed: a non-first fragment carries no port.
    Fragment = 7,
    /// Passed: to a terminating pod, which may still serve (KEP-1669).
    Draining = 8,
    /// An event that the ring buffer had no room for; the verdict stood.
    EventLost = 9,
    /// An event beyond the suspect's rate; the verdict stood.
    EventSuppressed = 10,
    /// Passed: a packet from the IP was seen, so it is in use.
    Lifted = 11,
    /// Passed: the node's own routes lead to the IP, or nowhere, which the node itself answers.
    Held = 12,
    /// Denied: dropped, and answered with a TCP RST or an ICMP error.
    Rejected = 13,
    /// An answer beyond the limits; the packet was dropped.
    AnswerSuppressed = 14,
    /// The kernel refused to write an answer; the packet, counted as rejected, was dropped.
    AnswerFailed = 15,
    /// Denied, or of a flow that was: sent to a live endpoint instead.
    Redirected = 16,
    /// A packet could not be redirected or captured, and was dropped.
    RedirectFailed = 17,
    /// Denied: sent to the capture interface.
    Captured = 18,
    /// Passed: the packet is aimed at an affected Service, but cannot carry the Service's number.
    NotCarried = 19,
    /// Passed: the packet was aimed at the denied Service, and a foreign program has wiped the number.
    IntentLost = 20,
    /// A redirected connection beyond its client's share of FLOWS: it goes on, but a flood may reset it.
    BeyondShare = 21,
    /// Counted as redirected, but its flow may not be: rejected.
    RedirectRefused = 22,
}

impl Outcome {
    /// Every outcome, in the order of their numbers.
    pub const ALL: [Self; 23] = [
        Self::Dropped,
        Self::Observed,
        Self::Off,
        Self::LeaseExpired,
        Self::NoIntent,
        Self::NotDenied,
        Self::Established,
        Self::Fragment,
        Self::Draining,
        Self::EventLost,
        Self::EventSuppressed,
        Self::Lifted,
        Self::Held,
        Self::Rejected,
        Self::AnswerSuppressed,
        Self::AnswerFailed,
        Self::Redirected,
        Self::RedirectFailed,
        Self::Captured,
        Self::NotCarried,
        Self::IntentLost,
        Self::BeyondShare,
        Self::RedirectRefused,
    ];

    /// Outcomes of enforced denials: the packet does not reach its destination.
    pub const STOPPED: [Self; 4] = [Self::Dropped, Self::Rejected, Self::Redirected, Self::Captured];

    /// What is counted beside what became of a packet.
    pub const NEWS: [Self; 7] = [
        Self::EventLost,
        Self::EventSuppressed,
        Self::AnswerSuppressed,
        Self::AnswerFailed,
        Self::RedirectFailed,
        Self::BeyondShare,
        Self::RedirectRefused,
    ];

    /// Reads a number from an event; `None` for an unknown one.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| *outcome as u32 == raw)
    }

    /// As logs and metrics write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            Self::Observed => "observed",
            Self::Off => "off",
            Self::LeaseExpired => "lease-expired",
            Self::NoIntent => "no-intent",
            Self::NotDenied => "not-denied",
            Self::Established => "established",
            Self::Fragment => "fragment",
            Self::Draining => "draining",
            Self::EventLost => "event-lost",
            Self::EventSuppressed => "event-suppressed",
            Self::Lifted => "lifted",
            Self::Held => "held",
            Self::Rejected => "rejected",
            Self::AnswerSuppressed => "answer-suppressed",
            Self::AnswerFailed => "answer-failed",
            Self::Redirected => "redirected",
            Self::RedirectFailed => "redirect-failed",
            Self::Captured => "captured",
            Self::NotCarried => "not-carried",
            Self::IntentLost => "intent-lost",
            Self::BeyondShare => "beyond-share",
            Self::RedirectRefused => "redirect-refused",
        }
    }
}

/// The decision about one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a verdict that is not turned into an action protects nobody"]
pub enum Verdict {
    /// Not a suspect; not counted.
    Clear,
    /// Passed and counted; `Outcome` names why.
    Pass(Reason, Outcome),
    /// Denied for this reason; `enforce` false: only reported.
    Deny {
        /// The proof that holds.
        reason: Reason,
        /// Whether the packet is stopped.
        enforce: bool,
    },
}

impl Verdict {
    /// How the packet is counted; `None` if it isn't.
    #[inline]
    #[must_use]
    pub const fn counted(self) -> Option<(Reason, Outcome)> {
        match self {
            Self::Clear => None,
            Self::Pass(reason, outcome) => Some((reason, outcome)),
            Self::Deny {
                reason,
                enforce: true,
            } => Some((reason, Outcome::Dropped)),
            Self::Deny {
                reason,
                enforce: false,
            } => Some((reason, Outcome::Observed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_and_outcome_reads_back_from_its_number() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_raw(reason as u32), Some(reason));
        }
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::from_raw(outcome as u32), Some(outcome));
        }
        assert_eq!(Reason::from_raw(99), None);
        assert_eq!(Outcome::from_raw(99), None);
    }

    #[test]
    fn a_reason_to_deny_reads_back_from_its_name() {
        for reason in Reason::ALL {
            let wanted = Some(reason).filter(|reason| *reason != Reason::Nothing);
            assert_eq!(Reason::parse(reason.as_str()), wanted);
        }
        assert_eq!(Reason::parse("reuse"), None);
    }
}
