//! The choice of an action, as `--action` and `epguard action` take it.

use super::args;
use epguard_common::{Action, OneOf, Reason, ReasonActions};

/// A choice of an action, for one reason or for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What is done with a denied packet.
    pub action: Action,
    /// The only reason that the choice applies to; none: all.
    pub reason: Option<Reason>,
    /// The interface of [`Action::Capture`].
    pub capture: Option<String>,
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
    let each = by_operator().map(|action| {
        let (first, rest) = action.help().split_at(1);
        format!("{}: {}{rest}", written(action), first.to_lowercase())
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Reads `ACTION` or `REASON=ACTION`. Errors: which actions, or which reasons, there are.
pub fn choice(text: &str) -> Result<Choice, String> {
    let (reason, action) = match text.split_once('=') {
        Some((reason, action)) if Action::named(reason).is_none() => {
            let reason =
                args::reason(reason).map_err(|error| format!("{error}, as in reused=reject"))?;
            (Some(reason), action)
        }
        _ => (None, text),
    };
    let choice = of_action(action).ok_or_else(|| {
        let actions = by_operator().map(written);
        format!(
            "not an action: {}, or REASON=ACTION for one reason; a Service asks for redirect by its annotation \
             epguard.io/action",
            OneOf(actions)
        )
    })?;
    Ok(Choice { reason, ..choice })
}

fn of_action(text: &str) -> Option<Choice> {
    let (name, interface) = match text.split_once('=') {
        Some((name, interface)) => (name, Some(interface).filter(|name| !name.is_empty())),
        None => (text, None),
    };
    let action = Action::named(name)?;
    let choosers = action.choosers();
    (choosers.operator && choosers.interface == interface.is_some()).then(|| Choice {
        action,
        reason: None,
        capture: interface.map(ToOwned::to_owned),
    })
}

fn by_operator() -> impl Iterator<Item = Action> + Clone {
    Action::ALL
        .into_iter()
        .filter(|action| action.choosers().operator)
}

fn written(action: Action) -> String {
    let interface = if action.choosers().interface {
        "=IFACE"
    } else {
        ""
    };
    format!("{action}{interface}")
}
