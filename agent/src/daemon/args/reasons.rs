//! Options about single reasons for a denial.

use crate::kernel::maps;
use crate::shared::args::reason;
use clap::Args;
use epguard_common::{Mode, Reason, ReasonModes};

/// Which reasons are carried out.
#[derive(Debug, Args)]
pub struct ReasonArgs {
    /// Most that is done for one reason, at the start: dead-backend, reused, retired-backend or terminated, and off,
    /// observe or enforce [default: enforce, but retired-backend=observe]
    #[arg(long, value_name = "REASON=MODE", value_delimiter = ',', value_parser = reason_mode)]
    reason_mode: Vec<(Reason, Mode)>,
}

impl ReasonArgs {
    /// The options in the form that CONFIG holds.
    #[must_use]
    pub fn modes(&self) -> ReasonModes {
        let mut modes = maps::DEFAULT;
        for (reason, mode) in &self.reason_mode {
            if let Some(own) = modes.of(*reason) {
                *own = *mode;
            }
        }
        modes
    }
}

fn reason_mode(text: &str) -> Result<(Reason, Mode), &'static str> {
    let (name, mode) = text
        .split_once('=')
        .ok_or("not REASON=MODE, as in terminated=observe")?;
    let mode = Mode::parse(mode).ok_or("not a mode: off, observe or enforce")?;
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
        assert_eq!(modes(&[]).unwrap(), maps::DEFAULT);
        let set = modes(&["--reason-mode", "terminated=observe,retired-backend=enforce"]).unwrap();
        assert_eq!(
            (set.terminated, set.retired_backend),
            (Mode::Observe, Mode::Enforce)
        );
        assert_eq!((set.reused, set.dead_backend), (Mode::Enforce, Mode::Enforce));
    }

    #[test]
    fn what_is_no_reason_or_no_mode_says_what_is_one() {
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
