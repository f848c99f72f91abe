//! Errors as Kubernetes returns them: an HTTP code and a `Status` object.

use serde_json::{Value, json};

/// An API error, sent to clients as a `Status` object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP code, also `Status.code`.
    pub code: u16,
    /// `Status.reason`, what clients switch on.
    pub reason: &'static str,
    /// `Status.message`, for human readers.
    pub message: String,
}

impl ApiError {
    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 404: no path of this server.
    pub fn unknown_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// 410: the resourceVersion or continue token is older than the kept history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 422: the object breaks a rule.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    /// 504: a list or watch asked for a resourceVersion of the future.
    pub fn too_large(asked: u64, current: u64) -> Self {
        Self::new(
            504,
            "Timeout",
            format!("Too large resource version: {asked}, current: {current}"),
        )
    }

    /// Any code.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
        }
    }

    /// The `Status` object clients get.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if self.reason == "Timeout" {
            let causes = json!([{"reason": "ResourceVersionTooLarge", "message": self.message}]);
            status["details"] = json!({"causes": causes, "retryAfterSeconds": 1});
        }
        status
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} {})", self.message, self.code, self.reason)
    }
}

impl std::error::Error for ApiError {}
