//! CONFIG and VIEW: the operator's settings, and the agent's view with its lease. All-zero is off.

use crate::{Action, AnswerLimits, Mode, PerReason};

/// CONFIG, one element: the operator's settings. Written by `epguard agent` at start and when the
/// mode policy changes, by `epguard mode` and by `epguard action`.
///
/// The map holds it as [`RawConfig`].
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Config<M = Mode, A = Action> {
    /// Upper bound for every reason.
    pub mode: M,
    /// Bound per reason.
    pub reasons: PerReason<M>,
    /// The bounds that the operator set: a reason with a wrong denial is in observe until
    /// `epguard mode` sets it again.
    pub configured: PerReason<M>,
    /// The action per reason, for denials without an action of their own.
    pub actions: PerReason<A>,
    /// The limits of answers.
    pub limits: AnswerLimits,
    /// Not 0: actions are those of a `ConfigMap`. The next agent keeps them until it has read it.
    pub actions_from_config_map: u32,
    /// Not 0: the programs log through aya-log.
    pub debug: u32,
    /// Not 0: the modes are those of a `ConfigMap`. The next agent keeps them until it has read it.
    pub from_config_map: u32,
}

/// CONFIG as the map holds it: numbers instead of enums, as a person may have written any number
/// with bpftool.
pub type RawConfig = Config<u32, u32>;

impl RawConfig {
    /// The settings. Unknown modes are off, unknown actions unset.
    pub fn checked(self) -> Config {
        Config {
            mode: Mode::from_raw(self.mode),
            reasons: self.reasons.map(Mode::from_raw),
            configured: self.configured.map(Mode::from_raw),
            actions: self.actions.map(Action::from_raw),
            limits: self.limits,
            actions_from_config_map: self.actions_from_config_map,
            debug: self.debug,
            from_config_map: self.from_config_map,
        }
    }
}

impl From<Config> for RawConfig {
    fn from(config: Config) -> Self {
        Self {
            mode: config.mode as u32,
            reasons: config.reasons.map(|mode| mode as u32),
            configured: config.configured.map(|mode| mode as u32),
            actions: config.actions.map(|action| action as u32),
            limits: config.limits,
            actions_from_config_map: config.actions_from_config_map,
            debug: config.debug,
            from_config_map: config.from_config_map,
        }
    }
}

/// The mode of each reason; what is in force is the lower of this and [`Config::mode`].
pub type ReasonModes = PerReason<Mode>;

/// VIEW, one element: the agent's view with its lease. Written by the agent's map writer only, so
/// that switching the mode and renewing the lease never overwrite each other.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct View {
    /// Nanoseconds of `CLOCK_BOOTTIME`; after it every packet passes.
    pub lease_deadline_ns: u64,
    /// Entries in SUSPECTS; with none, and none of the following, the programs read this and pass.
    pub suspects: u32,
    /// Entries in TERMINATED.
    pub terminated: u32,
    /// Not 0: flows are redirected, or some that were still go on.
    pub flows: u32,
    /// Where [`crate::Entry`] begins in the kernel's `struct nf_conn`; 0: not known, so the
    /// programs read no entry.
    pub entry_at: u32,
    /// Not 0: the programs look up connections in Cilium's maps.
    pub cilium: u32,
    /// [`View::FOUND`], [`View::HOOKED`]; 0: no socket load balancer is known on this node.
    pub socket_lb: u32,
    /// Which connections of sockets count, [`crate::Connection::epoch`]. The agent draws another
    /// number whenever hooks may have missed a call.
    pub socket_lb_epoch: u32,
    /// The greatest [`crate::ServiceNumber`] that was given.
    pub last_service: u32,
    /// Not 0: some interface has, or had, a role that [`crate::Role::hands_on`].
    pub relays: u32,
    /// Always 0.
    pub reserved: u32,
}

impl View {
    /// A socket load balancer is on the node, and hooks of ours are before and after it.
    pub const FOUND: u32 = 1;
    /// The same, and all interfaces that the agent selects are hooked.
    pub const HOOKED: u32 = 2;

    /// Whether the agent has renewed the lease in time. `now_ns`: `CLOCK_BOOTTIME`.
    #[inline]
    pub const fn lease_is_valid(&self, now_ns: u64) -> bool {
        now_ns <= self.lease_deadline_ns
    }

    /// Whether every packet passes without a lookup, as on most nodes most of the time.
    #[inline]
    pub const fn is_idle(&self) -> bool {
        self.suspects == 0 && self.terminated == 0 && self.flows == 0
    }

    /// Whether every packet passes the ingress hook without a lookup: it judges no Service but by
    /// sockets.
    #[inline]
    pub const fn is_idle_at_ingress(&self) -> bool {
        let by_socket = self.socket_lb != 0 && self.suspects != 0;
        self.flows == 0 && !by_socket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_were_written_and_unknown_numbers_are_off() {
        let config = Config {
            mode: Mode::Enforce,
            actions: PerReason {
                reused: Action::Reject,
                ..PerReason::default()
            },
            ..Config::default()
        };
        assert_eq!(RawConfig::from(config).checked(), config);
        let garbage = RawConfig {
            mode: 77,
            ..config.into()
        };
        assert_eq!(
            [garbage, RawConfig::default()].map(|raw| raw.checked().mode),
            [Mode::Off; 2]
        );
    }

    #[test]
    fn the_view_is_idle_without_entries_and_the_ingress_hook_with_suspects_but_no_socket_load_balancer()
     {
        let with = |change: fn(&mut View)| {
            let mut view = View::default();
            change(&mut view);
            view
        };
        for (view, is_idle, is_idle_at_ingress) in [
            (View::default(), true, true),
            (with(|view| view.suspects = 1), false, true),
            (with(|view| view.terminated = 1), false, true),
            (with(|view| view.flows = 1), false, false),
            (
                with(|view| (view.suspects, view.socket_lb) = (1, View::FOUND)),
                false,
                false,
            ),
        ] {
            let idle = (view.is_idle(), view.is_idle_at_ingress());
            assert_eq!(idle, (is_idle, is_idle_at_ingress), "{view:?}");
        }
    }
}
