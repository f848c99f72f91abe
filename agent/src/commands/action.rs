//! `epguard action`: switches the action for denied packets, at once.

use crate::kernel::maps;
use crate::shared::args::{PinArgs, one_of};
use crate::shared::choice::{self, Choice, choice};
use anyhow::{Result, bail};
use clap::Args;
use epguard_common::Reason;

/// Options of `epguard action`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  epguard action reject
  epguard action --reason reused drop")]
pub struct ActionArgs {
    #[arg(value_name = "ACTION", value_parser = choice, help = choice::help())]
    action: Choice,
    /// Only for this reason
    #[arg(long, value_parser = one_of(Reason::TO_DENY, Reason::as_str, Reason::help))]
    reason: Option<Reason>,
    /// Where the datapath is pinned.
    #[command(flatten)]
    pub pins: PinArgs,
}

impl ActionArgs {
    /// The choice that the arguments make. Errors: they name two reasons.
    fn choice(&self) -> Result<Choice> {
        if let (Some(reason), Some(other)) = (self.reason, self.action.reason)
            && reason != other
        {
            bail!("--reason {reason} contradicts {other}=...: name the reason once");
        }
        Ok(Choice {
            reason: self.reason.or(self.action.reason),
            ..self.action
        })
    }
}

/// Switches the running datapath. Errors: no datapath is pinned there.
pub fn run(args: &ActionArgs) -> Result<()> {
    maps::set_action(&args.pins.pin_dir, args.choice()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::args::parsed;
    use epguard_common::{Action, ReasonActions};

    #[test]
    fn the_action_command_switches_all_reasons_or_one() {
        let switch = |args: &[&str]| {
            let switch: ActionArgs = parsed(args).unwrap();
            switch
                .choice()
                .unwrap()
                .applied_to(ReasonActions::default())
        };
        let all = switch(&["reject"]);
        assert_eq!(
            (all.terminated, all.dead_backend),
            (Action::Reject, Action::Reject)
        );
        let one = switch(&["reject", "--reason", "reused"]);
        assert_eq!(
            (one.reused, one.dead_backend),
            (Action::Reject, Action::Unset)
        );
        assert!(parsed::<ActionArgs>(&["drop", "--reason", "none"]).is_err());
    }

    #[test]
    fn an_action_for_two_reasons_is_refused() {
        let both: ActionArgs = parsed(&["reused=drop", "--reason", "terminated"]).unwrap();
        let error = both.choice().unwrap_err().to_string();
        assert!(
            error.contains("--reason terminated contradicts reused=..."),
            "{error}"
        );
    }
}
