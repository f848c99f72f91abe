//! Options about single reasons for a denial.

use crate::kernel::maps;
use crate::shared::args::reason;
use clap::Args;
use epguard_common::{Mode, OneOf, Reason, ReasonModes};

/// Which reasons are carried out.
#[derive(Debug, Args)]
pub struct ReasonArgs {
    #[arg(long, value_name = "REASON=MODE", value_delimiter = ',', value_parser = reason_mode, help = help())]
    reason_mode: Vec<(Reason, Mode)>,
}

impl ReasonArgs {
    /// The options in the form that CONFIG holds.
    #[must_use]
    pub fn modes(&self) -> ReasonModes {
        let mut modes = maps::default_modes();
        for (reason, mode) in &self.reason_mode {
            if let Some(own) = modes.of(*reason) {
                *own = *mode;
            }
        }
        modes
    }
}

fn help() -> String {
    let lower = Reason::TO_DENY.into_iter().map(|reason| (reason, reason.terms().default));
    let lower = lower.filter(|(_, mode)| *mode < Mode::Enforce);
    let lower = lower.map(|(reason, mode)| format!(", but {reason}={mode}"));
    format!(
        "Highest mode for one reason, at the start: {}, and {} [default: {}{}]",
        OneOf(Reason::TO_DENY),
        OneOf(Mode::ALL),
        Mode::Enforce,
        lower.collect::<String>()
    )
}

fn reason_mode(text: &str) -> Result<(Reason, Mode), String> {
    let (name, mode) = text.split_once('=').ok_or("not REASON=MODE, as in terminated=observe")?;
    let mode = Mode::named(mode).ok_or_else(|| format!("not a mode: {}", OneOf(Mode::ALL)))?;
    Ok((reason(name)?, mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        reasons: ReasonArgs,
    }

    fn modes(args: &[&str]) -> Result<ReasonModes, String> {
        let args = ["epguard"].iter().chain(args);
        let cli = Cli::try_parse_from(args).map_err(|error| error.to_string())?;
        Ok(cli.reasons.modes())
    }

    #[test]
    fn reasons_are_set_one_by_one_and_the_others_keep_their_default() {
        assert_eq!(modes(&[]).unwrap(), maps::default_modes());
        let set = modes(&["--reason-mode", "terminated=observe,retired-backend=enforce"]).unwrap();
        assert_eq!((set.terminated, set.retired_backend), (Mode::Observe, Mode::Enforce));
        assert_eq!((set.reused, set.dead_backend), (Mode::Enforce, Mode::Enforce));
    }

    #[test]
    fn an_unknown_reason_or_mode_is_refused_with_the_known_ones() {
        for (bad, remedy) in [
            ("terminated", "as in terminated=observe"),
            ("terminated=on", "off, observe or enforce"),
            ("gone=off", "dead-backend, reused"),
            ("none=off", "dead-backend, reused"),
        ] {
            let error = modes(&["--reason-mode", bad]).unwrap_err();
            assert!(error.lines().next().unwrap().contains(remedy), "{error}");
        }
    }
}
