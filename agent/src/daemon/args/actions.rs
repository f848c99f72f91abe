//! Options about how denied packets are stopped.

use crate::shared::choice::{Choice, choice};
use anyhow::{Result, bail};
use clap::Args;
use epguard_common::{AnswerLimits, ReasonActions};

/// How denied packets are stopped, when the agent starts.
#[derive(Debug, Args)]
pub struct ActionArgs {
    /// What is done with a denied packet: drop it, reject it with a TCP RST or an ICMP error, or redirect=IFACE to send it
    /// out of an interface as it is, for tcpdump; REASON=ACTION for one reason [default: drop]
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
    /// The interface that packets are captured to, if any. Errors: several interfaces are named.
    pub fn capture(&self) -> Result<Option<&str>> {
        let mut interfaces = self.action.iter().filter_map(|choice| choice.capture.as_deref());
        let first = interfaces.next();
        if let Some(other) = interfaces.find(|other| Some(*other) != first) {
            bail!(
                "--action redirects to {} and to {other}: name one interface for all reasons",
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
        AnswerLimits {
            per_suspect: self.answers_per_suspect,
            per_node: self.answers_per_node,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use epguard_common::Action;

    #[derive(Parser)]
    struct Agent {
        #[command(flatten)]
        actions: ActionArgs,
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
    fn packets_are_redirected_to_an_interface_that_is_named() {
        let parsed = Agent::try_parse_from(["epguard", "--action", "drop,reused=redirect=tap0"])
            .ok()
            .unwrap();
        assert_eq!(parsed.actions.capture().unwrap(), Some("tap0"));
        let expected = ReasonActions {
            reused: Action::Capture,
            dead_backend: Action::Drop,
            retired_backend: Action::Drop,
            terminated: Action::Drop,
        };
        assert_eq!(parsed.actions.actions(), expected);
        for nameless in ["redirect", "redirect=", "reused=redirect"] {
            assert!(actions(&["--action", nameless]).is_err(), "{nameless}");
        }
    }

    #[test]
    fn an_unknown_action_or_reason_names_the_known_ones() {
        let error = actions(&["--action", "refuse"]).unwrap_err();
        assert!(error.contains("drop or reject"), "{error}");
        let error = actions(&["--action", "stale=drop"]).unwrap_err();
        assert!(error.contains("dead-backend, reused"), "{error}");
    }

    #[test]
    fn two_interfaces_are_refused() {
        let two = [
            "epguard",
            "--action",
            "reused=redirect=tap0,terminated=redirect=tap1",
        ];
        let parsed = Agent::try_parse_from(two).ok().unwrap();
        let error = parsed.actions.capture().unwrap_err().to_string();
        assert!(error.contains("to tap0 and to tap1"), "{error}");
    }
}
