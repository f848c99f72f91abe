//! Logs of pods (`kubectl logs`): a test decides where they are, in place of a kubelet.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use hyper::{Response, StatusCode};

use super::reply::{self, Body};
use super::{Api, Route};
use crate::api::{ApiError, Kind, ObjectRef};

impl Api {
    /// The whole log of a pod at once. An earlier container's log is in that of the last one.
    pub(super) fn log(&self, route: &Route) -> Result<Response<Body>, ApiError> {
        let pod = route.target(Kind::Pod, None)?;
        self.store.get(&pod).ok_or_else(|| pod.missing())?;
        let log = self
            .logs
            .path(&pod)
            .and_then(|path| fs::read(path).ok())
            .ok_or_else(|| {
                ApiError::new(500, "InternalError", "no kubelet has the log of this pod")
            })?;
        Ok(reply::bytes(StatusCode::OK, "text/plain", log.into()))
    }
}

type LogPath = dyn Fn(&ObjectRef) -> PathBuf + Send + Sync;

/// The files of the logs; at first no pod has one.
#[derive(Default)]
pub struct Logs(OnceLock<Box<LogPath>>);

impl Logs {
    /// Names the file of each pod's log, once.
    pub fn are_at(&self, place: impl Fn(&ObjectRef) -> PathBuf + Send + Sync + 'static) {
        _ = self.0.set(Box::new(place));
    }

    fn path(&self, pod: &ObjectRef) -> Option<PathBuf> {
        self.0.get().map(|place| place(pod))
    }
}
