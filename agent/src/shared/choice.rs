//! The choice of an action, as `--action` and `epguard action` take it.

use epguard_common::{Action, Reason, ReasonActions};

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
    #[must_use]
    pub fn applied_to(&self, mut actions: ReasonActions) -> ReasonActions {
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

fn action_of(text: &str) -> Option<(Action, Option<String>)> {
    match text.split_once('=') {
        Some(("redirect", interface)) if !interface.is_empty() => {
            Some((Action::Capture, Some(interface.into())))
        }
        None if text == Action::Drop.as_str() => Some((Action::Drop, None)),
        None if text == Action::Reject.as_str() => Some((Action::Reject, None)),
        _ => None,
    }
}

/// Reads `ACTION` or `REASON=ACTION`.
pub fn choice(text: &str) -> Result<Choice, &'static str> {
    let (reason, action) = match text.split_once('=') {
        Some((reason, action)) if reason != "redirect" => (
            Some(Reason::parse(reason).ok_or(
                "not a reason: dead-backend, reused, retired-backend or terminated, as in reused=reject",
            )?),
            action,
        ),
        _ => (None, text),
    };
    let (action, capture) = action_of(action)
        .ok_or("not an action: drop or reject or redirect=IFACE, or REASON=ACTION for one reason")?;
    Ok(Choice {
        action,
        reason,
        capture,
    })
}
