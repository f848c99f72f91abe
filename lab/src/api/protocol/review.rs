//! What a user may do (`SelfSubjectAccessReview`): each user may ask for that.

use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::reply::{self, Body};
use super::{Api, Route, read};
use crate::api::ApiError;

/// Whether a request asks for that.
pub(super) fn is_asked(verb: &str, route: &Route) -> bool {
    let resource = (&*route.group, &*route.resource());
    verb == "create" && resource == ("authorization.k8s.io", "selfsubjectaccessreviews")
}

impl Api {
    /// Answers whether the user may do what the body names.
    pub(super) async fn review(&self, body: Incoming) -> Result<Response<Body>, ApiError> {
        let mut review: Value = serde_json::from_slice(&read(body).await?)
            .map_err(|error| ApiError::bad_request(format!("body is not JSON: {error}")))?;
        let asked = &review["spec"]["resourceAttributes"];
        let text = |field: &str| asked[field].as_str().unwrap_or_default();
        let route = Route::of(
            text("group"),
            text("resource"),
            text("namespace"),
            text("name"),
        );
        let allowed = self.access.allows(text("verb"), &route);
        review["status"] = json!({"allowed": allowed});
        Ok(reply::json(StatusCode::CREATED, &review))
    }
}
