//! CONFIG: the operator's mode for each reason, and the reasons that were wrong.

use super::{Writer, config::reconfigure, configuration};
use anyhow::Result;
use epguard_common::{Config, Mode, Reason, ReasonModes};
use std::collections::BTreeMap;
use std::path::Path;

/// The modes of the reasons unless the operator sets others.
#[must_use]
pub fn default_modes() -> ReasonModes {
    ReasonModes::of_each(|reason| reason.terms().default)
}

/// Switches the mode of the running datapath, or of one reason. A reason among these that was only observed because it
/// was wrong is no longer limited.
///
/// Errors: no datapath is pinned there.
pub fn set_mode(pin_dir: &Path, mode: Mode, reason: Option<Reason>) -> Result<()> {
    reconfigure(pin_dir, |config| Ok(switched(config, mode, reason)))
}

/// The mode of the running datapath, with that of each reason; or the mode of one reason.
///
/// Errors: no datapath is pinned there.
pub fn show_mode(pin_dir: &Path, reason: Option<Reason>) -> Result<String> {
    Ok(shown(configuration(pin_dir)?, reason))
}

impl Writer {
    /// Sets the operator's modes. A reason that was wrong, in this process or an earlier one, is still only observed.
    pub fn configure(&mut self, mode: Mode, reasons: ReasonModes, from_config_map: bool) -> Result<()> {
        self.change_config(|before| {
            let config = Config {
                mode,
                reasons,
                configured: reasons,
                from_config_map: from_config_map.into(),
                ..before
            };
            Ok(demoted(before).into_iter().fold(config, without))
        })
    }

    /// The modes that an earlier process left, and whether it took them from a `ConfigMap`; none if there was none.
    pub fn configured(&self) -> Result<Option<(Mode, ReasonModes, bool)>> {
        let config = self.config()?;
        let modes = (config.mode, config.configured, config.from_config_map != 0);
        Ok((config != Config::default()).then_some(modes))
    }

    /// Limits a reason to `observe` from now on, until `epguard mode` sets it again.
    pub fn demote(&mut self, reason: Reason) -> Result<()> {
        self.change_config(|config| Ok(without(config, reason)))
    }

    /// Reasons that are only observed because they were wrong.
    #[must_use]
    pub fn demoted(&self) -> Vec<Reason> {
        self.config().map(demoted).unwrap_or_default()
    }

    /// The mode in CONFIG; `epguard mode` may have changed it.
    pub fn mode(&self) -> Result<Mode> {
        Ok(self.config()?.mode)
    }

    /// The mode in force for each reason: the lower of its own mode and the node's.
    #[must_use]
    pub fn reasons(&self) -> BTreeMap<Reason, Mode> {
        let Ok(mut config) = self.config() else {
            return BTreeMap::new();
        };
        let mode = config.mode;
        let own = Reason::TO_DENY.into_iter().filter_map(|reason| {
            let own = config.reasons.of(reason)?;
            Some((reason, own.lower(mode)))
        });
        own.collect()
    }
}

/// The modes in force: of a reason the lower of its own and the node's.
fn shown(mut config: Config, reason: Option<Reason>) -> String {
    let mode = config.mode;
    let mut of = |reason: Reason| match config.reasons.of(reason).copied() {
        Some(own) if own > mode => format!("{} (its own mode is {own})", mode.as_str(), own = own.as_str()),
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
        return Config { mode, reasons, ..config };
    };
    for modes in [&mut config.reasons, &mut config.configured] {
        if let Some(own) = modes.of(reason) {
            *own = mode;
        }
    }
    config
}

fn without(mut config: Config, reason: Reason) -> Config {
    if let Some(mode) = config.reasons.of(reason) {
        *mode = mode.lower(Mode::Observe);
    }
    config
}

fn demoted(mut config: Config) -> Vec<Reason> {
    let mut lowered = Reason::TO_DENY.to_vec();
    lowered.retain(|reason| config.reasons.of(*reason) < config.configured.of(*reason));
    lowered
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Enforce, Observe, Off};
    use Reason::{Reused, Terminated};

    fn config() -> Config {
        Config { mode: Observe, reasons: default_modes(), configured: default_modes(), ..Config::default() }
    }

    #[test]
    fn the_mode_is_shown_first_and_below_what_is_in_force_for_each_reason() {
        let config = switched(config(), Off, Some(Terminated));
        let expected = "observe\n  dead-backend observe (its own mode is enforce)\n  reused observe (its own mode is enforce)\n  \
             retired-backend observe\n  terminated off";
        assert_eq!(shown(config, None), expected);
        assert_eq!(shown(config, Some(Terminated)), "off");
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
    fn setting_a_reason_or_the_mode_restores_a_demoted_reason() {
        let config = without(without(config(), Reused), Terminated);
        assert_eq!(demoted(config), [Reused, Terminated]);
        assert_eq!(demoted(switched(config, Enforce, Some(Reused))), [Terminated]);
        assert_eq!(demoted(switched(config, Observe, None)), []);
    }

    #[test]
    fn demotion_leaves_a_reason_that_is_off_unchanged() {
        let config = without(switched(config(), Off, Some(Reused)), Reused);
        assert_eq!((config.reasons.reused, demoted(config)), (Off, vec![]));
    }
}
