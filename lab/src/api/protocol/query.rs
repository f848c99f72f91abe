//! Parameters of a request.

use std::time::Duration;

use crate::api::ApiError;

/// The query of a request (`ListOptions`, `DeleteOptions` and the like in one).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) labels: String,
    pub(super) fields: String,
    pub(super) limit: Option<usize>,
    pub(super) continue_token: Option<String>,
    /// 0: any, which is also the meaning of an empty one here.
    pub(super) resource_version: u64,
    /// `resourceVersionMatch=NotOlderThan`.
    pub(super) not_older: bool,
    pub(super) watch: bool,
    pub(super) bookmarks: bool,
    pub(super) initial_events: Option<bool>,
    pub(super) timeout: Option<Duration>,
    pub(super) field_manager: String,
    pub(super) grace: Option<u32>,
}

impl Query {
    /// Reads a query; parameters that this server does not use are skipped, and so are empty ones.
    pub(super) fn parse(query: &str) -> Result<Self, ApiError> {
        let mut parsed = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()).filter(|(_, value)| !value.is_empty()) {
            match &*key {
                "labelSelector" => parsed.labels = value.into(),
                "fieldSelector" => parsed.fields = value.into(),
                "fieldManager" => parsed.field_manager = value.into(),
                "dryRun" => return Err(ApiError::bad_request("dryRun is not served here")),
                "watch" => parsed.watch = flag(&key, &value)?,
                "allowWatchBookmarks" => parsed.bookmarks = flag(&key, &value)?,
                "sendInitialEvents" => parsed.initial_events = Some(flag(&key, &value)?),
                "limit" => parsed.limit = Some(number(&key, &value)?).filter(|limit| *limit > 0),
                "continue" => parsed.continue_token = Some(value.into()),
                "timeoutSeconds" => {
                    parsed.timeout =
                        Some(Duration::from_secs(number(&key, &value)?)).filter(|t| !t.is_zero());
                }
                "gracePeriodSeconds" => parsed.grace = Some(number(&key, &value)?),
                "resourceVersion" => parsed.resource_version = number(&key, &value)?,
                "resourceVersionMatch" if value == "NotOlderThan" => parsed.not_older = true,
                "resourceVersionMatch" => return Err(unsupported(&key, &value)),
                _ => {}
            }
        }
        Ok(parsed)
    }
}

fn flag(key: &str, value: &str) -> Result<bool, ApiError> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(unsupported(key, value)),
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, ApiError> {
    value.parse().map_err(|_| unsupported(key, value))
}

fn unsupported(key: &str, value: &str) -> ApiError {
    ApiError::bad_request(format!("{key}: Invalid value: {value:?}"))
}
