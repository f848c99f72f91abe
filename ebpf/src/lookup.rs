//! What a verdict looks up for a known Service, in the maps. It keeps what it finds, for the report.

use crate::clock::Clock;
use crate::maps;
use crate::telemetry::Evidence;
use core::cell::Cell;
use epguard_common::{
    Action, Addr, DenialKey, Intent, Mode, Model, Packet, Proof, Rate, RawConfig, Reason, Slot, Suspect, Uid,
    View,
};

/// The lookups for one packet or call.
pub struct Lookup<'a> {
    view: &'a View,
    config: *const RawConfig,
    mode: Mode,
    intent: Intent,
    suspect: Cell<Option<*mut Suspect>>,
    denial: Cell<Option<maps::Denied>>,
    clock: &'a Clock,
}

impl<'a> Lookup<'a> {
    /// For a packet or call that is aimed at this Service.
    #[inline(always)]
    pub fn new(
        view: &'a View,
        config: *const RawConfig,
        mode: Mode,
        intent: Intent,
        clock: &'a Clock,
    ) -> Self {
        Self {
            view,
            config,
            mode,
            intent,
            suspect: Cell::new(None),
            denial: Cell::new(None),
            clock,
        }
    }

    /// The time of this run of the program, nanoseconds of `CLOCK_BOOTTIME`.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// The operator's settings.
    #[inline(always)]
    pub fn config(&self) -> *const RawConfig {
        self.config
    }

    /// The action of the denial that was found; unset if it has none.
    #[inline(always)]
    pub fn own_action(&self) -> Action {
        self.denial.get().map_or(Action::Unset, |denied| denied.action())
    }

    /// The action that CONFIG holds for the reason.
    #[inline(always)]
    pub fn configured_action(&self, reason: Reason) -> Action {
        maps::action_of(self.config, reason)
    }
}

impl Model for Lookup<'_> {
    #[inline(always)]
    fn suspect(&self, addr: &Addr) -> Option<u32> {
        let (suspect, flags) = maps::suspect(addr)?;
        self.suspect.set(Some(suspect));
        Some(flags)
    }

    #[inline(always)]
    fn intent(&self, _: &Packet) -> Intent {
        self.intent
    }

    #[inline(always)]
    fn denial(&self, target: &DenialKey) -> Option<Proof> {
        let denied = maps::denial(target)?;
        self.denial.set(Some(denied));
        Some(denied.proof())
    }

    #[inline(always)]
    fn mode(&self) -> Mode {
        self.mode
    }

    #[inline(always)]
    fn mode_of(&self, reason: Reason) -> Mode {
        maps::mode_of(self.config, reason)
    }

    #[inline(always)]
    fn lease_is_valid(&self) -> bool {
        self.view.lease_is_valid(self.now_ns())
    }
}

impl Evidence for Lookup<'_> {
    #[inline(always)]
    fn rate(&self) -> Option<*mut Rate> {
        // SAFETY: a field of an entry that stays there for the run of the program.
        self.suspect
            .get()
            .map(|suspect| unsafe { &raw mut (*suspect).rate })
    }

    #[inline(always)]
    fn write_uids(&self, packet: &Packet, dead: *mut Uid, owner: *mut Uid) {
        if let Some(denied) = self.denial.get() {
            denied.write_uids(&DenialKey::of(packet, self.intent.slot), dead, owner);
        }
    }

    #[inline(always)]
    fn slot(&self) -> Slot {
        self.intent.slot
    }
}
