//! Options about which endpoints are denied, for which reasons, and how denied packets are stopped.

use crate::kernel::maps;
use crate::shared::args::reason;
use crate::shared::choice::{self, Choice, choice};
use clap::Args;
use epguard_common::{Action, AnswerLimits, Mode, OneOf, Reason, ReasonActions, ReasonModes};
use epguard_core::facts::Cidr;
use epguard_core::state::Ranges;

/// Which endpoints may be denied.
#[derive(Debug, Args)]
pub struct RangeArgs {
    /// Deny only endpoints in these ranges, IPv4 and IPv6 alike [default: all]
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = cidr)]
    protect_cidr: Vec<Cidr>,
    /// Never deny endpoints in these ranges, protected or not
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = cidr)]
    exclude_cidr: Vec<Cidr>,
}

impl RangeArgs {
    /// The options in the form that the state uses.
    pub fn ranges(&self) -> Ranges {
        Ranges {
            protect: self.protect_cidr.clone(),
            exclude: self.exclude_cidr.clone(),
        }
    }
}

fn cidr(text: &str) -> Result<Cidr, &'static str> {
    Cidr::parse(text)
        .ok_or("not a range of IPs: write ADDRESS/LENGTH, as in 10.244.0.0/16 or fd00:10::/32")
}

/// Which reasons are carried out.
#[derive(Debug, Args)]
pub struct ReasonArgs {
    #[arg(long, value_name = "REASON=MODE", value_delimiter = ',', value_parser = reason_mode, help = mode_help())]
    reason_mode: Vec<(Reason, Mode)>,
}

impl ReasonArgs {
    /// The options in the form that CONFIG holds.
    pub fn modes(&self) -> ReasonModes {
        let mut modes = maps::default_modes();
        for (reason, mode) in &self.reason_mode {
            if let Some(own) = modes.get_mut(*reason) {
                *own = *mode;
            }
        }
        modes
    }
}

fn mode_help() -> String {
    let lower = Reason::TO_DENY
        .into_iter()
        .map(|reason| (reason, reason.terms().default));
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
    let (name, mode) = text
        .split_once('=')
        .ok_or("not REASON=MODE, as in terminated=observe")?;
    let mode = Mode::from_name(mode).ok_or_else(|| format!("not a mode: {}", OneOf(Mode::ALL)))?;
    Ok((reason(name)?, mode))
}

/// How denied packets are stopped, when the agent starts.
#[derive(Debug, Args)]
pub struct DenialActionArgs {
    #[arg(long, value_name = "ACTION", value_delimiter = ',', value_parser = choice, help = action_help())]
    action: Vec<Choice>,
    /// Answers per second to packets sent to one IP; packets beyond that are dropped
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000)]
    answers_per_suspect: u32,
    /// Answers per second of this node; packets beyond that are dropped
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    answers_per_node: u32,
}

fn action_help() -> String {
    format!(
        "What is done with a denied packet: {}; REASON=ACTION for one reason [default: {}]",
        choice::help(),
        Action::Drop
    )
}

impl DenialActionArgs {
    /// The action of each reason. A choice for one reason takes precedence over a choice for all.
    pub fn actions(&self) -> ReasonActions {
        let mut actions = ReasonActions::default();
        let (all, one): (Vec<&Choice>, Vec<&Choice>) = self
            .action
            .iter()
            .partition(|choice| choice.reason.is_none());
        for choice in all.into_iter().chain(one) {
            actions = choice.applied_to(actions);
        }
        actions
    }

    /// The limits on how many denied packets are answered.
    pub fn limits(&self) -> AnswerLimits {
        AnswerLimits {
            per_suspect: self.answers_per_suspect,
            per_node: self.answers_per_node,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::args::parsed;

    #[test]
    fn ranges_may_be_given_with_commas_and_repeatedly() {
        let args = [
            "--exclude-cidr",
            "10.1.0.0/16",
            "--exclude-cidr=fd00::/8,10.2.0.0/16",
        ];
        let ranges = parsed::<RangeArgs>(&args).unwrap().ranges();
        let written: Vec<String> = ranges.exclude.iter().map(ToString::to_string).collect();
        assert_eq!(written, ["10.1.0.0/16", "fd00::/8", "10.2.0.0/16"]);
        assert!(ranges.protect.is_empty());
    }

    fn modes(args: &[&str]) -> ReasonModes {
        parsed::<ReasonArgs>(args).unwrap().modes()
    }

    #[test]
    fn reasons_are_set_one_by_one_and_the_others_keep_their_default() {
        assert_eq!(modes(&[]), maps::default_modes());
        let set = modes(&[
            "--reason-mode",
            "terminated=observe,retired-backend=enforce",
        ]);
        assert_eq!(
            (set.terminated, set.retired_backend),
            (Mode::Observe, Mode::Enforce)
        );
        assert_eq!(
            (set.reused, set.dead_backend),
            (Mode::Enforce, Mode::Enforce)
        );
    }

    fn actions(args: &[&str]) -> Result<ReasonActions, String> {
        Ok(parsed::<DenialActionArgs>(args)?.actions())
    }

    #[test]
    fn no_packet_is_rejected_by_default_and_the_action_of_one_reason_overrides_the_general_one() {
        let reject = ReasonActions::of_each(|_| Action::Reject);
        let but_one = ReasonActions {
            terminated: Action::Drop,
            ..reject
        };
        for (args, expected) in [
            (&[][..], ReasonActions::default()),
            (&["--action", "reject"], reject),
            (&["--action", "terminated=drop,reject"], but_one),
            (&["--action=reject", "--action=terminated=drop"], but_one),
        ] {
            assert_eq!(actions(args), Ok(expected), "{args:?}");
        }
    }

    #[test]
    fn an_action_that_the_operator_may_not_choose_is_refused() {
        for refused in [
            "redirect",
            "reused=redirect",
            "drop=tap0",
            "capture",
            "reused=",
        ] {
            assert!(actions(&["--action", refused]).is_err(), "{refused}");
        }
    }
}
