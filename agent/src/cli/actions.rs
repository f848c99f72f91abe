//! Options about how denied packets are stopped.

use super::PinArgs;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use epguard_common::{Action, AnswerLimits, Reason, ReasonActions};

/// How denied packets are stopped, when the agent starts.
#[derive(Debug, Args)]
pub struct ActionArgs {
    /// What is done with a denied packet: drop it, or reject it with a TCP RST or an ICMP error; REASON=ACTION for one
    /// reason [default: drop]
    #[arg(long, value_name = "ACTION", value_delimiter = ',', value_parser = choice)]
    action: Vec<Choice>,
    /// Answers a second to packets aimed at one IP; the rest is dropped
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000)]
    answers_per_suspect: u32,
    /// Answers a second of this node; the rest is dropped
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    answers_per_node: u32,
}

impl ActionArgs {
    /// The action of each reason: what is said of one counts more than what is said of all.
    #[must_use]
    pub fn actions(&self) -> ReasonActions {
        let mut actions = ReasonActions::default();
        let (all, one): (Vec<&Choice>, Vec<&Choice>) =
            self.action.iter().partition(|choice| choice.reason.is_none());
        for choice in all.into_iter().chain(one) {
            actions = choice.applied_to(actions);
        }
        actions
    }

    /// How many packets are answered.
    #[must_use]
    pub fn limits(&self) -> AnswerLimits {
        AnswerLimits {
            per_suspect: self.answers_per_suspect,
            per_node: self.answers_per_node,
        }
    }
}

/// Options of `epguard action`.
#[derive(Debug, Args)]
pub struct SwitchArgs {
    /// drop: silently; reject: with a TCP RST or an ICMP error to the sender
    #[arg(value_parser = action())]
    action: Action,
    /// Only for this reason
    #[arg(long, value_parser = reason())]
    reason: Option<Reason>,
    /// Where the datapath is pinned.
    #[command(flatten)]
    pub pins: PinArgs,
}

impl SwitchArgs {
    /// What is chosen.
    #[must_use]
    pub fn choice(&self) -> Choice {
        Choice {
            action: self.action,
            reason: self.reason,
        }
    }
}

/// An action, for one reason or for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    action: Action,
    reason: Option<Reason>,
}

impl Choice {
    /// The actions with this one chosen.
    #[must_use]
    pub fn applied_to(self, mut actions: ReasonActions) -> ReasonActions {
        for reason in Reason::ALL {
            if self.reason.is_none_or(|only| only == reason)
                && let Some(action) = actions.of(reason)
            {
                *action = self.action;
            }
        }
        actions
    }
}

const ACTIONS: [Action; 2] = [Action::Drop, Action::Reject];

fn action() -> impl TypedValueParser<Value = Action> {
    PossibleValuesParser::new(ACTIONS.map(Action::as_str)).map(|text| action_of(&text).unwrap_or_default())
}

fn action_of(text: &str) -> Option<Action> {
    ACTIONS.into_iter().find(|action| action.as_str() == text)
}

fn reason() -> impl TypedValueParser<Value = Reason> {
    let reasons = Reason::ALL
        .into_iter()
        .filter(|reason| *reason != Reason::Nothing);
    PossibleValuesParser::new(reasons.map(Reason::as_str))
        .map(|text| reason_of(&text).unwrap_or(Reason::Nothing))
}

fn reason_of(text: &str) -> Option<Reason> {
    let mut reasons = Reason::ALL
        .into_iter()
        .filter(|reason| *reason != Reason::Nothing);
    reasons.find(|reason| reason.as_str() == text)
}

fn choice(text: &str) -> Result<Choice, &'static str> {
    let (reason, action) = match text.split_once('=') {
        Some((reason, action)) => (
            Some(reason_of(reason).ok_or(
                "not a reason: dead-backend, reused, retired-backend or terminated, as in reused=reject",
            )?),
            action,
        ),
        None => (None, text),
    };
    let action = action_of(action).ok_or("not an action: drop or reject, or REASON=ACTION for one reason")?;
    Ok(Choice { action, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Agent {
        #[command(flatten)]
        actions: ActionArgs,
    }

    #[derive(Parser)]
    struct Switch {
        #[command(flatten)]
        switch: SwitchArgs,
    }

    fn actions(args: &[&str]) -> Result<ReasonActions, String> {
        let parsed = Agent::try_parse_from(["epguard"].iter().chain(args));
        parsed
            .map(|agent| agent.actions.actions())
            .map_err(|error| error.to_string())
    }

    const REJECT: ReasonActions = ReasonActions {
        dead_backend: Action::Reject,
        reused: Action::Reject,
        retired_backend: Action::Reject,
        terminated: Action::Reject,
    };

    #[test]
    fn nothing_is_rejected_unless_asked_for() {
        assert_eq!(actions(&[]), Ok(ReasonActions::default()));
        assert_eq!(actions(&["--action", "reject"]), Ok(REJECT));
    }

    #[test]
    fn what_is_said_of_one_reason_counts_more_in_any_order() {
        let expected = ReasonActions {
            terminated: Action::Drop,
            ..REJECT
        };
        assert_eq!(actions(&["--action", "terminated=drop,reject"]), Ok(expected));
        assert_eq!(
            actions(&["--action=reject", "--action=terminated=drop"]),
            Ok(expected)
        );
    }

    #[test]
    fn an_unknown_action_or_reason_names_the_known_ones() {
        let error = actions(&["--action", "refuse"]).unwrap_err();
        assert!(error.contains("drop or reject"), "{error}");
        let error = actions(&["--action", "stale=drop"]).unwrap_err();
        assert!(error.contains("dead-backend, reused"), "{error}");
    }

    #[test]
    fn the_action_command_switches_all_reasons_or_one() {
        let switch = |args: &[&str]| {
            let parsed = Switch::try_parse_from(["action"].iter().chain(args))
                .ok()
                .unwrap();
            parsed.switch.choice().applied_to(ReasonActions::default())
        };
        assert_eq!(switch(&["reject"]), REJECT);
        let one = switch(&["reject", "--reason", "reused"]);
        assert_eq!((one.reused, one.dead_backend), (Action::Reject, Action::Unset));
        assert!(Switch::try_parse_from(["action", "drop", "--reason", "none"]).is_err());
    }
}
