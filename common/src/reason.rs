//! The reasons to deny, and a value for each, as CONFIG holds it.

use crate::Mode;
use crate::table::table;

table! {
    /// Why a packet is, or would be, denied. `judge` of the agent proves each.
    #[cfg_attr(feature = "schema", schemars(transform = any_name))]
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

/// Later versions may have more reasons: their documents agree with this version's schema.
#[cfg(feature = "schema")]
fn any_name(schema: &mut schemars::Schema) {
    schema.remove("oneOf");
    schema.insert("type".into(), "string".into());
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
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_name(text).filter(|reason| *reason != Self::Nothing)
    }
}

/// Values in a [`PerReason`]; a power of two, so that the programs mask an index.
pub const PER_REASON: usize = 8;

macro_rules! per_reason {
    ($($reason:ident: $field:ident),*) => {
        /// Something for each reason to deny, in the order of their numbers.
        #[repr(C)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[allow(missing_docs, reason = "named after the reasons")]
        pub struct PerReason<T> {
            $(pub $field: T,)*
            /// Room for further reasons, so that one more changes no map.
            pub reserved: [T; PER_REASON - Reason::TO_DENY.len()],
        }

        impl<T: Copy> PerReason<T> {
            /// The same value for every reason, and in the room for others.
            pub const fn all(value: T) -> Self {
                Self { $($field: value,)* reserved: [value; PER_REASON - Reason::TO_DENY.len()] }
            }
        }

        impl<T> PerReason<T> {
            /// The same of something else.
            pub fn map<U>(self, with: impl Fn(T) -> U) -> PerReason<U> {
                PerReason { $($field: with(self.$field),)* reserved: self.reserved.map(with) }
            }

            /// That of a reason; `None` for [`Reason::Nothing`].
            pub const fn get(&self, reason: Reason) -> Option<&T> {
                match reason {
                    Reason::Nothing => None,
                    $(Reason::$reason => Some(&self.$field),)*
                }
            }

            /// The same, to change it.
            pub fn get_mut(&mut self, reason: Reason) -> Option<&mut T> {
                match reason {
                    Reason::Nothing => None,
                    $(Reason::$reason => Some(&mut self.$field),)*
                }
            }
        }
    };
}

per_reason! { DeadBackend: dead_backend, Reused: reused, RetiredBackend: retired_backend, Terminated: terminated }

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
