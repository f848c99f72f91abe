//! Options about how denied packets are stopped.

use crate::shared::choice::{self, Choice, choice};
use anyhow::{Result, bail};
use clap::Args;
use epguard_common::{Action, AnswerLimits, ReasonActions};

/// How denied packets are stopped, when the agent starts.
#[derive(Debug, Args)]
pub struct ActionArgs {
    #[arg(long, value_name = "ACTION", value_delimiter = ',', value_parser = choice, help = help())]
    action: Vec<Choice>,
    /// Answers per second to packets sent to one IP; packets beyond that are dropped
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000)]
    answers_per_suspect: u32,
    /// Answers per second of this node; packets beyond that are dropped
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    answers_per_node: u32,
}

fn help() -> String {
    let (help, default) = (choice::help(), Action::Drop);
    format!("What is done with a denied packet: {help}; REASON=ACTION for one reason [default: {default}]")
}

impl ActionArgs {
    /// One line for each choice in an old spelling, with the new one.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.action.iter().filter_map(Choice::warning)
    }

    /// The interface that packets are captured to, if any. Errors: several interfaces are named.
    pub fn capture(&self) -> Result<Option<&str>> {
        let mut interfaces = self.action.iter().filter_map(|choice| choice.capture.as_deref());
        let first = interfaces.next();
        if let Some(other) = interfaces.find(|other| Some(*other) != first) {
            bail!(
                "--action captures to {} and to {other}: name one interface for all reasons",
                first.unwrap_or_default()
            );
        }
        Ok(first)
    }

    /// The action of each reason. A choice for one reason takes precedence over a choice for all.
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

    /// The limits on how many denied packets are answered.
    #[must_use]
    pub fn limits(&self) -> AnswerLimits {
        AnswerLimits { per_suspect: self.answers_per_suspect, per_node: self.answers_per_node }
    }
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

    fn all(action: Action) -> ReasonActions {
        ReasonActions::of_each(|_| action)
    }

    fn actions(args: &[&str]) -> Result<ReasonActions, String> {
        let parsed = Agent::try_parse_from(["epguard"].iter().chain(args));
        parsed.map(|agent| agent.actions.actions()).map_err(|error| error.to_string())
    }

    #[test]
    fn no_packet_is_rejected_by_default() {
        assert_eq!(actions(&[]), Ok(ReasonActions::default()));
        assert_eq!(actions(&["--action", "reject"]), Ok(all(Action::Reject)));
    }

    #[test]
    fn the_action_of_one_reason_overrides_the_general_one_in_any_order() {
        let expected = ReasonActions { terminated: Action::Drop, ..all(Action::Reject) };
        assert_eq!(actions(&["--action", "terminated=drop,reject"]), Ok(expected));
        assert_eq!(actions(&["--action=reject", "--action=terminated=drop"]), Ok(expected));
    }

    #[test]
    fn packets_are_redirected_to_an_interface_that_is_named() {
        let parsed = Agent::try_parse_from(["epguard", "--action", "drop,reused=capture=tap0"]).ok().unwrap();
        assert_eq!(parsed.actions.capture().unwrap(), Some("tap0"));
        let expected = ReasonActions { reused: Action::Capture, ..all(Action::Drop) };
        assert_eq!(parsed.actions.actions(), expected);
        for nameless in ["capture", "capture=", "reused=capture", "redirect", "drop=tap0"] {
            assert!(actions(&["--action", nameless]).is_err(), "{nameless}");
        }
    }

    #[test]
    fn an_unknown_action_or_reason_names_the_known_ones() {
        let error = actions(&["--action", "refuse"]).unwrap_err();
        assert!(error.contains("drop, reject or capture=IFACE"), "{error}");
        let error = actions(&["--action", "stale=drop"]).unwrap_err();
        assert!(error.contains("dead-backend, reused"), "{error}");
    }

    #[test]
    fn two_interfaces_are_refused() {
        let two = ["epguard", "--action", "reused=capture=tap0,terminated=redirect=tap1"];
        let parsed = Agent::try_parse_from(two).ok().unwrap();
        let error = parsed.actions.capture().unwrap_err().to_string();
        assert!(error.contains("to tap0 and to tap1"), "{error}");
    }
}
