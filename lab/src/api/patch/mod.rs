//! The patch formats of the API.

mod strategic;

use serde_json::Value;

use super::ApiError;

/// A patch as sent, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// RFC 6902
    Json,
    /// RFC 7386
    Merge,
    /// Merge that knows the lists with keys (Pod containers, conditions, Service ports).
    Strategic,
    /// Server-side apply; merged like `Strategic`, without a check for conflicts.
    Apply,
}

impl Format {
    /// Reads a `Content-Type`.
    pub(crate) fn of(content_type: &str) -> Result<Self, ApiError> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            other => {
                let message = format!("the body of the request was in an unknown format: {other:?}");
                Err(ApiError::new(415, "UnsupportedMediaType", message))
            }
        }
    }

    /// The object after the patch.
    pub(crate) fn apply(self, object: &Value, patch: &Value) -> Result<Value, ApiError> {
        match self {
            Self::Merge => Ok(merge(object, patch)),
            Self::Strategic | Self::Apply => Ok(strategic::merge(object, patch)),
            Self::Json => {
                let operations: json_patch::Patch = serde_json::from_value(patch.clone())
                    .map_err(|e| ApiError::bad_request(format!("not a JSON patch: {e}")))?;
                let mut patched = object.clone();
                json_patch::patch(&mut patched, &operations)
                    .map_err(|e| ApiError::invalid(format!("JSON patch does not apply: {e}")))?;
                Ok(patched)
            }
        }
    }
}

/// JSON merge patch (RFC 7386): lists are replaced, null removes.
pub(crate) fn merge(object: &Value, patch: &Value) -> Value {
    let mut merged = object.clone();
    json_patch::merge(&mut merged, patch);
    merged
}
