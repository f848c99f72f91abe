//! CONFIG: the operator's mode for each reason, the reasons that were wrong, and the actions for
//! denied packets.

use super::lock::hold_config;
use super::pinned::{open, take_map};
use crate::shared::choice::Choice;
use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{Array, MapData};
use epguard_common::{Config, Mode, RawConfig, Reason, ReasonActions, ReasonModes};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// CONFIG of the running datapath.
pub struct PinnedConfig {
    map: Array<MapData, RawConfig>,
    /// The pin directory whose lock each change takes; none in tests.
    pin_dir: Option<PathBuf>,
}

impl PinnedConfig {
    /// Takes the map of a loaded object. Changes take no lock.
    pub(super) fn take_from(ebpf: &mut Ebpf) -> Result<Self> {
        Ok(Self {
            map: take_map(ebpf, "CONFIG")?,
            pin_dir: None,
        })
    }

    /// Opens the pinned map. Errors: none is pinned there.
    fn pinned(pin_dir: &Path) -> Result<Self> {
        Ok(Self {
            map: open(pin_dir, "CONFIG")?,
            pin_dir: None,
        })
    }

    /// Makes each later change take the lock that commands beside the agent take too.
    pub fn lock_in(&mut self, pin_dir: &Path) {
        self.pin_dir = Some(pin_dir.to_owned());
    }

    /// The settings.
    pub fn read_config(&self) -> Result<Config> {
        let raw = self.map.get(&0, 0).context("cannot read CONFIG")?;
        Ok(raw.checked())
    }

    /// Changes the settings under the lock. If another process keeps the lock, the change is made
    /// nevertheless: it may be the one that ends a wrong denial.
    pub fn change(&mut self, change: impl FnOnce(Config) -> Config) -> Result<()> {
        let held = self.pin_dir.as_deref().map(hold_config).transpose();
        if let Err(error) = &held {
            tracing::warn!("CONFIG is changed without its lock: {error:#}");
        }
        self.write(change)
    }

    fn write(&mut self, change: impl FnOnce(Config) -> Config) -> Result<()> {
        let changed = change(self.read_config()?);
        self.map
            .set(0, RawConfig::from(changed), 0)
            .context("cannot write CONFIG")
    }

    /// Sets the operator's modes. A reason that was wrong, in this process or an earlier one, is
    /// still only observed.
    pub fn configure(
        &mut self,
        mode: Mode,
        reasons: ReasonModes,
        from_config_map: bool,
    ) -> Result<()> {
        self.change(|before| {
            let config = Config {
                mode,
                reasons,
                configured: reasons,
                from_config_map: from_config_map.into(),
                ..before
            };
            demoted(before).into_iter().fold(config, without)
        })
    }

    /// Sets the operator's actions.
    pub fn set_actions(&mut self, actions: ReasonActions, from_config_map: bool) -> Result<()> {
        self.change(|before| Config {
            actions,
            actions_from_config_map: from_config_map.into(),
            ..before
        })
    }

    /// Limits a reason to `observe` from now on, until `epguard mode` sets it again.
    pub fn demote(&mut self, reason: Reason) -> Result<()> {
        self.change(|config| without(config, reason))
    }

    /// Reasons that are only observed because they were wrong.
    pub fn demoted(&self) -> Vec<Reason> {
        self.read_config().map(demoted).unwrap_or_default()
    }

    /// The mode in force for each reason: the lower of its own mode and the node's.
    pub fn reasons(&self) -> BTreeMap<Reason, Mode> {
        let Ok(mut config) = self.read_config() else {
            return BTreeMap::new();
        };
        let mode = config.mode;
        let own = Reason::TO_DENY.into_iter().filter_map(|reason| {
            let own = config.reasons.get_mut(reason)?;
            Some((reason, own.lower(mode)))
        });
        own.collect()
    }
}

/// The modes of the reasons unless the operator sets others.
pub fn default_modes() -> ReasonModes {
    ReasonModes::of_each(|reason| reason.terms().default)
}

/// Reads the configuration of the running datapath. Errors: none is pinned there.
pub fn configuration(pin_dir: &Path) -> Result<Config> {
    PinnedConfig::pinned(pin_dir)?.read_config()
}

/// Switches the action of the running datapath.
///
/// Errors: none is pinned there, or another process holds the lock of CONFIG.
pub fn set_action(pin_dir: &Path, choice: Choice) -> Result<()> {
    reconfigure(pin_dir, |config| Config {
        actions: choice.applied_to(config.actions),
        // An action that is set by hand lasts until the agent restarts.
        actions_from_config_map: 0,
        ..config
    })
}

/// Switches the mode of the running datapath, or of one reason. A reason among these that was only
/// observed because it was wrong is no longer limited.
///
/// Errors: as [`set_action`].
pub fn set_mode(pin_dir: &Path, mode: Mode, reason: Option<Reason>) -> Result<()> {
    reconfigure(pin_dir, |config| switched(config, mode, reason))
}

/// The mode of the running datapath, with that of each reason; or the mode of one reason.
///
/// Errors: no datapath is pinned there.
pub fn show_mode(pin_dir: &Path, reason: Option<Reason>) -> Result<String> {
    Ok(describe_modes(configuration(pin_dir)?, reason))
}

/// Changes the pinned CONFIG under its lock.
fn reconfigure(pin_dir: &Path, change: impl FnOnce(Config) -> Config) -> Result<()> {
    let mut map = PinnedConfig::pinned(pin_dir)?;
    let _held = hold_config(pin_dir)?;
    map.write(change)
}

/// The modes in force: of a reason the lower of its own and the node's.
fn describe_modes(mut config: Config, reason: Option<Reason>) -> String {
    let mode = config.mode;
    let mut of = |reason: Reason| match config.reasons.get_mut(reason).copied() {
        Some(own) if own > mode => format!(
            "{} (its own mode is {own})",
            mode.as_str(),
            own = own.as_str()
        ),
        own => own.map_or("", Mode::as_str).to_owned(),
    };
    if let Some(reason) = reason {
        return of(reason);
    }
    let reasons = Reason::TO_DENY.map(|reason| format!("\n  {} {}", reason.as_str(), of(reason)));
    format!("{}{}", mode.as_str(), reasons.concat())
}

fn switched(mut config: Config, mode: Mode, reason: Option<Reason>) -> Config {
    // A mode that is set by hand lasts until the agent restarts.
    config.from_config_map = 0;
    let Some(reason) = reason else {
        let reasons = config.configured;
        return Config {
            mode,
            reasons,
            ..config
        };
    };
    for modes in [&mut config.reasons, &mut config.configured] {
        if let Some(own) = modes.get_mut(reason) {
            *own = mode;
        }
    }
    config
}

fn without(mut config: Config, reason: Reason) -> Config {
    if let Some(mode) = config.reasons.get_mut(reason) {
        *mode = mode.lower(Mode::Observe);
    }
    config
}

fn demoted(mut config: Config) -> Vec<Reason> {
    let mut lowered = Reason::TO_DENY.to_vec();
    lowered.retain(|reason| config.reasons.get_mut(*reason) < config.configured.get_mut(*reason));
    lowered
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Enforce, Observe, Off};
    use Reason::{Reused, Terminated};

    fn config() -> Config {
        Config {
            mode: Observe,
            reasons: default_modes(),
            configured: default_modes(),
            ..Config::default()
        }
    }

    #[test]
    fn the_mode_is_shown_first_and_below_what_is_in_force_for_each_reason() {
        let config = switched(config(), Off, Some(Terminated));
        let all = describe_modes(config, None);
        assert!(
            all.starts_with("observe\n  dead-backend observe (its own mode is enforce)\n  reused "),
            "{all}"
        );
        assert!(
            all.contains("\n  retired-backend observe\n  terminated off"),
            "{all}"
        );
        assert_eq!(describe_modes(config, Some(Terminated)), "off");
    }

    #[test]
    fn a_reason_is_switched_alone_and_everything_with_the_mode_but_the_reasons() {
        let config = switched(config(), Off, Some(Terminated));
        assert_eq!((config.mode, config.reasons.terminated), (Observe, Off));
        assert_eq!(config.reasons.reused, Enforce);
        let config = switched(config, Enforce, None);
        assert_eq!((config.mode, config.reasons.terminated), (Enforce, Off));
    }

    #[test]
    fn setting_a_reason_or_the_mode_restores_a_demoted_reason_and_one_that_is_off_is_not_demoted() {
        let config = without(without(config(), Reused), Terminated);
        assert_eq!(demoted(config), [Reused, Terminated]);
        assert_eq!(
            demoted(switched(config, Enforce, Some(Reused))),
            [Terminated]
        );
        assert_eq!(demoted(switched(config, Observe, None)), []);
        let off = without(switched(self::config(), Off, Some(Reused)), Reused);
        assert_eq!((off.reasons.reused, demoted(off)), (Off, vec![]));
    }
}
