//! The choice of an action, as `--action` and `epguard action` take it.

use super::args;
use epguard_common::{Action, OneOf, Reason, ReasonActions};

/// A choice of an action, for one reason or for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// What is done with a denied packet.
    pub action: Action,
    /// The only reason that the choice applies to; none: all.
    pub reason: Option<Reason>,
}

impl Choice {
    /// The actions after this choice.
    pub fn applied_to(&self, mut actions: ReasonActions) -> ReasonActions {
        for reason in Reason::TO_DENY {
            if self.reason.is_none_or(|only| only == reason)
                && let Some(action) = actions.get_mut(reason)
            {
                *action = self.action;
            }
        }
        actions
    }
}

/// The actions that an operator may choose, each with its meaning.
pub fn help() -> String {
    let mut sentences = Vec::new();
    for action in Action::all_of_operator() {
        let (first, rest) = action.help().split_at(1);
        sentences.push(format!("{action}: {}{rest}", first.to_lowercase()));
    }
    sentences.join("; ")
}

/// Reads `ACTION` or `REASON=ACTION`. Errors: which actions, or which reasons, there are.
pub fn choice(text: &str) -> Result<Choice, String> {
    let Some((reason, action)) = text.split_once('=') else {
        return Ok(Choice {
            action: read_action(text)?,
            reason: None,
        });
    };
    if Action::from_name(reason).is_some() {
        return Err(not_an_action());
    }
    let reason = args::reason(reason).map_err(|error| format!("{error}, as in reused=reject"))?;
    Ok(Choice {
        action: read_action(action)?,
        reason: Some(reason),
    })
}

fn read_action(text: &str) -> Result<Action, String> {
    Action::of_operator(text).ok_or_else(not_an_action)
}

fn not_an_action() -> String {
    format!(
        "not an action: {}, or REASON=ACTION for one reason; a Service asks for redirect by its annotation \
         epguard.io/action",
        OneOf(Action::all_of_operator())
    )
}
