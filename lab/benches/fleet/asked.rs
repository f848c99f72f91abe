//! What a request asks for.

use super::support::parameter;
use hyper::Uri;

/// A request, as far as its cost depends on it.
#[derive(Clone)]
pub(crate) struct Asked {
    path: String,
    query: String,
    resource: String,
    pub(crate) is_watch: bool,
}

impl Asked {
    pub(crate) fn of(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default().to_owned();
        Self {
            path: uri.path().to_owned(),
            resource: uri.path().rsplit('/').next().unwrap_or_default().to_owned(),
            is_watch: query.contains("watch=true"),
            query,
        }
    }

    /// True for a watch that begins with a list.
    pub(crate) fn is_streamed_list(&self) -> bool {
        self.is_watch && self.query.contains("sendInitialEvents=true")
    }

    /// True for a watch of seconds, which its client may end.
    pub(crate) fn is_probe(&self) -> bool {
        let seconds = self.parameter("timeoutSeconds");
        self.is_watch && seconds.is_some_and(|seconds| seconds <= 3)
    }

    /// True for a list of a whole collection of any size, or a page of one.
    pub(crate) fn is_whole(&self) -> bool {
        let is_narrow = self.path.contains("/namespaces/") || self.query.contains("fieldSelector=");
        let is_small = self.parameter("limit").is_some_and(|limit| limit < 500);
        !is_narrow && !is_small && (!self.is_watch || self.is_streamed_list())
    }

    /// How many seats it takes in the API server: one for each 100 objects of the collection, 10 at most, however few of them
    /// match (`flowcontrol/request/list_work_estimator.go`). A watch without a list, and a single name: one.
    pub(crate) fn seats(&self, nodes: u32) -> u32 {
        let is_list = !self.is_watch || self.is_streamed_list();
        if !is_list || self.query.contains("metadata.name") {
            return 1;
        }
        match self.resource.as_str() {
            "pods" | "endpointslices" | "services" => 10,
            "nodes" => nodes.div_ceil(100).clamp(1, 10),
            _ => 2,
        }
    }

    fn parameter(&self, name: &str) -> Option<u32> {
        parameter(&self.query, name)
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = if self.is_watch { "watch" } else { "list" };
        write!(f, "{verb} {}?{}", self.path, self.query)
    }
}
