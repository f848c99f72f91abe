//! The Namespaces that objects are in. A real API server refuses objects without one; here the test must create it.

use serde_json::json;

use super::Store;
use crate::api::{ApiError, Kind, ObjectRef};

impl Store {
    /// Creates a Namespace unless there is one, in a recording as well.
    ///
    /// Errors: no name.
    pub fn ensure_namespace(&self, name: &str) -> Result<(), ApiError> {
        if self.get(&ObjectRef::new(Kind::Namespace, "", name)).is_some() {
            return Ok(());
        }
        let mut object = json!({
            "kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        if !self.lock().recording {
            return self.apply(object).map(drop);
        }
        let next = self.resource_version(Kind::Namespace) + 1;
        object["metadata"]["resourceVersion"] = next.to_string().into();
        object["metadata"]["uid"] = format!("namespace-{name}").into();
        self.ingest(&json!({"type": "ADDED", "object": object}))
    }
}
