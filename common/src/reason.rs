//! The reasons to deny, and a value for each, as CONFIG holds it.

use crate::Mode;
use crate::table::table;

table! {
    /// Why a packet is, or would be, denied. `judge` of the agent proves each.
    pub enum Reason (terms: Terms) {
        Nothing = 0, "none", Terms { default: Mode::Off, packets: "none" },
            "No denial was found";
        DeadBackend = 1, "dead-backend", Terms { default: Mode::Enforce, packets: "all" },
            "The pod that the Service meant is dead, and no pod claims its IP";
        Reused = 2, "reused",
            Terms {
                default: Mode::Enforce,
                packets: "all if the pod that was meant is dead; TCP SYN and SCTP INIT if it is retired",
            },
            "The pod that the Service meant is dead or retired, and a pod of another owner claims its IP";
        RetiredBackend = 3, "retired-backend",
            Terms { default: Mode::Observe, packets: "TCP SYN and SCTP INIT" },
            "The pod that the Service meant is retired: Kubernetes intends no new flow for it";
        Terminated = 4, "terminated", Terms { default: Mode::Enforce, packets: "all" },
            "The packet goes to an orphan IP without a Service: its last pod is dead, and it is unused on its node";
    }
}

/// What a reason means for packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The reason's mode unless the operator sets another one.
    pub default: Mode,
    /// Which packets are denied, as docs/verdicts.md names them.
    pub packets: &'static str,
}

impl Reason {
    /// The reasons to deny: all but [`Reason::Nothing`].
    pub const TO_DENY: [Self; Self::ALL.len() - 1] = {
        let mut reasons = [Self::Nothing; Self::ALL.len() - 1];
        let mut at = 0;
        while at < reasons.len() {
            reasons[at] = Self::ALL[at + 1];
            at += 1;
        }
        reasons
    };

    /// Reads the name of a reason to deny; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::named(text).filter(|reason| *reason != Self::Nothing)
    }
}

/// Something for each reason to deny, in the order of their numbers.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "named after the reasons")]
pub struct PerReason<T> {
    pub dead_backend: T,
    pub reused: T,
    pub retired_backend: T,
    pub terminated: T,
}

/// Values in a [`PerReason`]; a power of two, so that the programs mask an index.
pub const PER_REASON: usize = 4;

impl<T: Copy> PerReason<T> {
    /// The same value for every reason.
    #[must_use]
    pub const fn all(value: T) -> Self {
        Self { dead_backend: value, reused: value, retired_backend: value, terminated: value }
    }
}

impl<T> PerReason<T> {
    /// A value by the reason.
    pub fn of_each(value: impl Fn(Reason) -> T) -> Self
    where
        T: Default,
    {
        let mut all = Self::default();
        for reason in Reason::TO_DENY {
            if let Some(own) = all.get_mut(reason) {
                *own = value(reason);
            }
        }
        all
    }

    /// The same of something else.
    #[must_use]
    pub fn map<U>(self, with: impl Fn(T) -> U) -> PerReason<U> {
        PerReason {
            dead_backend: with(self.dead_backend),
            reused: with(self.reused),
            retired_backend: with(self.retired_backend),
            terminated: with(self.terminated),
        }
    }

    /// That of a reason; `None` for [`Reason::Nothing`].
    #[must_use]
    pub fn get_mut(&mut self, reason: Reason) -> Option<&mut T> {
        match reason {
            Reason::Nothing => None,
            Reason::DeadBackend => Some(&mut self.dead_backend),
            Reason::Reused => Some(&mut self.reused),
            Reason::RetiredBackend => Some(&mut self.retired_backend),
            Reason::Terminated => Some(&mut self.terminated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_place_by_its_number() {
        let mut all = PerReason::of_each(|reason| reason as u32);
        let start = (&raw const all).cast::<u32>();
        for reason in Reason::TO_DENY {
            let own: *const u32 = all.get_mut(reason).unwrap();
            assert_eq!(own, start.wrapping_add(reason as usize - 1), "{reason}");
            assert_eq!(all.get_mut(reason).copied(), Some(reason as u32));
        }
        assert!(size_of::<PerReason<u32>>() == 4 * PER_REASON && PER_REASON.is_power_of_two());
    }

    #[test]
    fn no_denial_is_no_reason_to_deny() {
        assert_eq!(Reason::parse("none"), None);
        assert!(!Reason::TO_DENY.contains(&Reason::Nothing));
        assert_eq!(Reason::parse("reused"), Some(Reason::Reused));
    }
}
