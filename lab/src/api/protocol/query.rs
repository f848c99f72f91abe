//! Parameters of a request.

use std::time::Duration;

use crate::api::ApiError;

/// The meaning of `resourceVersion` in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Exact,
    NotOlderThan,
}

/// The query of a request (`ListOptions`, `DeleteOptions` and the like in one).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) labels: String,
    pub(super) fields: String,
    pub(super) limit: Option<usize>,
    pub(super) continue_token: Option<String>,
    /// None: not given or empty, which asks for the most recent; 0: any.
    pub(super) resource_version: Option<u64>,
    pub(super) version_match: Option<Match>,
    pub(super) watch: bool,
    pub(super) bookmarks: bool,
    pub(super) initial_events: Option<bool>,
    pub(super) timeout: Option<Duration>,
    pub(super) field_manager: String,
    pub(super) dry_run: bool,
    pub(super) grace: Option<i64>,
}

impl Query {
    /// Reads a query; parameters that this server does not use are skipped.
    pub(super) fn parse(query: &str) -> Result<Self, ApiError> {
        let mut parsed = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "labelSelector" => parsed.labels = value.into(),
                "fieldSelector" => parsed.fields = value.into(),
                "fieldManager" => parsed.field_manager = value.into(),
                "dryRun" => parsed.dry_run = !value.is_empty(),
                "watch" => parsed.watch = flag(&key, &value)?,
                "allowWatchBookmarks" => parsed.bookmarks = flag(&key, &value)?,
                "sendInitialEvents" => parsed.initial_events = Some(flag(&key, &value)?),
                "limit" => parsed.limit = Some(number(&key, &value)?).filter(|limit| *limit > 0),
                "continue" => {
                    parsed.continue_token = Some(value.into()).filter(|token: &String| !token.is_empty());
                }
                "timeoutSeconds" if !value.is_empty() => {
                    parsed.timeout =
                        Some(Duration::from_secs(number(&key, &value)?)).filter(|t| !t.is_zero());
                }
                "gracePeriodSeconds" => parsed.grace = Some(number(&key, &value)?),
                "resourceVersion" if !value.is_empty() => {
                    parsed.resource_version = Some(number(&key, &value)?);
                }
                "resourceVersionMatch" => {
                    parsed.version_match = match &*value {
                        "" => None,
                        "Exact" => Some(Match::Exact),
                        "NotOlderThan" => Some(Match::NotOlderThan),
                        _ => return Err(unsupported(&key, &value)),
                    }
                }
                _ => {}
            }
        }
        Ok(parsed)
    }
}

fn flag(key: &str, value: &str) -> Result<bool, ApiError> {
    match value {
        "true" | "True" | "TRUE" | "1" | "t" | "T" => Ok(true),
        "" | "false" | "False" | "FALSE" | "0" | "f" | "F" => Ok(false),
        _ => Err(unsupported(key, value)),
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, ApiError> {
    value.parse().map_err(|_| unsupported(key, value))
}

fn unsupported(key: &str, value: &str) -> ApiError {
    ApiError::bad_request(format!("{key}: Invalid value: {value:?}"))
}
