//! Deletion, which for a pod is a conversation with its kubelet.

use super::Store;
use crate::api::{ApiError, Kind, ObjectRef};
use serde_json::{Value, json};

/// How an object is to be deleted.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Seconds; `None`: the pod's own.
    pub grace: Option<i64>,
    /// Only if the object has this UID.
    pub uid: Option<String>,
}

impl Store {
    /// Deletes as the API server does: a bound, running pod only gets a deletionTimestamp and goes when its kubelet
    /// deletes it again with grace 0; finalizers hold any object.
    pub fn delete(&self, id: &ObjectRef, options: &DeleteOptions) -> Result<Value, ApiError> {
        let state = self.lock();
        let mut object = Value::clone(
            state
                .of(id.kind)
                .get(&id.key())
                .ok_or_else(|| ApiError::not_found(id))?,
        );
        let meta = &object["metadata"];
        if options
            .uid
            .as_ref()
            .is_some_and(|uid| meta["uid"] != uid.as_str())
        {
            return Err(ApiError::conflict(format!(
                "{id}: the UID in the precondition is not the object's"
            )));
        }
        let held = meta["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty());
        let grace = grace(id.kind, &object, options.grace);
        if grace == 0 && !held && id.kind != Kind::Pod {
            return Ok(self.commit(state, id, object, true));
        }
        let shorter = meta["deletionGracePeriodSeconds"]
            .as_i64()
            .is_none_or(|old| grace < old);
        if shorter {
            object["metadata"]["deletionTimestamp"] = json!(in_seconds(grace));
            object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
            object = self.commit(state, id, object, false);
        } else {
            drop(state);
        }
        if grace > 0 || held {
            return Ok(object);
        }
        let state = self.lock();
        Ok(self.commit(state, id, object, true))
    }
}

/// Only pods that a kubelet may be running are given time (registry/core/pod/strategy.go:CheckGracefulDelete).
fn grace(kind: Kind, object: &Value, asked: Option<i64>) -> i64 {
    let terminal = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let bound = object["spec"]["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    if kind != Kind::Pod || terminal || !bound {
        return 0;
    }
    asked
        .or(object["spec"]["terminationGracePeriodSeconds"].as_i64())
        .unwrap_or(30)
        .max(0)
}

/// RFC 3339 in whole seconds, as the API server writes it.
pub(super) fn in_seconds(seconds: i64) -> String {
    let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
