//! DENIED: the denial of a Service's endpoint, as programs and agent use it and as the map holds
//! it.

use crate::{Action, Mode, Reason, Uid};

/// The state of the pod UID that the Service meant.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum UidState {
    /// Neither retired nor dead. No denial has this.
    #[default]
    Live = 0,
    /// Kubernetes intends no new flow for it, but it may still run: only packets that open a flow.
    Retired = 1,
    /// It will never send or receive again: all packets.
    Dead = 2,
}

impl UidState {
    /// Reads a number from a map; `None` for an unknown one.
    #[inline]
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::Live),
            1 => Some(Self::Retired),
            2 => Some(Self::Dead),
            _ => None,
        }
    }
}

/// A denial. The map holds it as [`RawDenial`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denial {
    /// The pod that the Service meant.
    pub dead_uid: Uid,
    /// The pod that would be hit; none if no pod claims the IP.
    pub owner_uid: Uid,
    /// `status.nodeInfo.bootID` of the node that the dead pod ran on.
    pub boot_id: Uid,
    /// Which proof holds.
    pub reason: Reason,
    /// How far it goes.
    pub uid_state: UidState,
    /// Upper bound from annotations: the mode in force is the lowest of all.
    pub mode: Mode,
    /// Not 0: the breaker stops the denial until a second list agrees: its packets are reported, and
    /// pass.
    pub stopped: u32,
    /// The denial's own action; unset: that of CONFIG.
    pub action: Action,
}

/// Value of DENIED, behind its key. Numbers instead of enums: a person may have written any number
/// with bpftool.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawDenial {
    /// The pod that the Service meant.
    pub dead_uid: Uid,
    /// The pod that would be hit; none if no pod claims the IP.
    pub owner_uid: Uid,
    /// `status.nodeInfo.bootID` of the node that the dead pod ran on.
    pub boot_id: Uid,
    /// [`Reason`].
    pub reason: u32,
    /// [`UidState`].
    pub uid_state: u32,
    /// [`Mode`].
    pub mode: u32,
    /// Not 0: only reported.
    pub stopped: u32,
    /// [`Action`].
    pub action: u32,
}

impl RawDenial {
    /// The denial; `None` for unknown numbers, and for a live pod.
    pub fn checked(&self) -> Option<Denial> {
        let uid_state =
            UidState::from_raw(self.uid_state).filter(|state| *state != UidState::Live)?;
        Some(Denial {
            dead_uid: self.dead_uid,
            owner_uid: self.owner_uid,
            boot_id: self.boot_id,
            reason: Reason::from_number(self.reason).filter(|reason| *reason != Reason::Nothing)?,
            uid_state,
            mode: Mode::from_raw(self.mode),
            stopped: self.stopped,
            action: Action::from_raw(self.action),
        })
    }
}

impl From<Denial> for RawDenial {
    fn from(denial: Denial) -> Self {
        Self {
            dead_uid: denial.dead_uid,
            owner_uid: denial.owner_uid,
            boot_id: denial.boot_id,
            reason: denial.reason as u32,
            uid_state: denial.uid_state as u32,
            mode: denial.mode as u32,
            stopped: denial.stopped,
            action: denial.action as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: Denial = Denial {
        dead_uid: Uid { octets: [0xaa; 16] },
        owner_uid: Uid { octets: [0xbb; 16] },
        boot_id: Uid { octets: [0xcc; 16] },
        reason: Reason::Reused,
        uid_state: UidState::Dead,
        mode: Mode::Observe,
        stopped: 1,
        action: Action::Reject,
    };

    #[test]
    fn a_denial_is_read_as_it_was_written() {
        assert_eq!(RawDenial::from(WRITTEN).checked(), Some(WRITTEN));
    }

    #[test]
    fn invalid_numbers_are_no_denial() {
        for (reason, uid_state) in [(77, 2), (0, 2), (2, 77), (2, 0)] {
            let raw = RawDenial {
                reason,
                uid_state,
                ..WRITTEN.into()
            };
            assert_eq!(raw.checked(), None, "{reason} {uid_state}");
        }
    }
}
