//! The keys of the mode policy.

use epguard_common::{OneOf, Reason};
use std::fmt;

/// A key of the mode policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyKey {
    /// `mode`: of every node.
    Mode,
    /// `canary-mode`: of canaries.
    CanaryMode,
    /// `terminated`: the highest mode for one reason.
    ReasonMode(Reason),
    /// `action`: of every node, for all reasons.
    Action,
    /// `canary-action`: of canaries, for all reasons.
    CanaryAction,
    /// `terminated-action`: for one reason, on every node.
    ReasonAction(Reason),
    /// `breaker-release`: the stopped denials that are released.
    BreakerRelease,
}

impl PolicyKey {
    /// Reads a key. Errors: it is none; which there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        for key in Self::all() {
            if key.to_string() == text {
                return Ok(key);
            }
        }
        Err(format!("{text} is no key: {}", OneOf(Self::all())))
    }

    /// All keys.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        let of_reasons = Reason::TO_DENY
            .into_iter()
            .flat_map(|reason| [Self::ReasonMode(reason), Self::ReasonAction(reason)]);
        [
            Self::Mode,
            Self::CanaryMode,
            Self::Action,
            Self::CanaryAction,
        ]
        .into_iter()
        .chain(of_reasons)
        .chain([Self::BreakerRelease])
    }
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode => formatter.write_str("mode"),
            Self::CanaryMode => formatter.write_str("canary-mode"),
            Self::ReasonMode(reason) => formatter.write_str(reason.as_str()),
            Self::Action => formatter.write_str("action"),
            Self::CanaryAction => formatter.write_str("canary-action"),
            Self::ReasonAction(reason) => write!(formatter, "{reason}-action"),
            Self::BreakerRelease => formatter.write_str("breaker-release"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written_and_an_unknown_one_is_named_with_all_that_there_are() {
        let mut all = Vec::new();
        for key in PolicyKey::all() {
            assert_eq!(PolicyKey::parse(&key.to_string()), Ok(key));
            all.push(key.to_string());
        }
        all.sort();
        let names = [
            "action",
            "breaker-release",
            "canary-action",
            "canary-mode",
            "dead-backend",
            "dead-backend-action",
            "mode",
            "retired-backend",
            "retired-backend-action",
            "reused",
            "reused-action",
            "terminated",
            "terminated-action",
        ];
        assert_eq!(all, names);
        let error = PolicyKey::parse("canary").unwrap_err();
        assert!(
            error.starts_with("canary is no key: mode, canary-mode, ")
                && error.ends_with(" or breaker-release"),
            "{error}"
        );
        assert!(PolicyKey::parse("none").is_err());
    }
}
