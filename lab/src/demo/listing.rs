//! What the API shows of the story's pods and endpoints, as `kubectl get` would.

use serde_json::Value;

use super::stage::Stage;
use crate::api::Kind;

/// The pods of both teams, and the endpoints of their Services.
#[must_use]
pub fn listing(stage: &Stage) -> String {
    let teams = ["domain-a", "domain-b"];
    let objects = |kind| {
        teams
            .map(|namespace| stage.objects(kind, namespace))
            .into_iter()
            .flatten()
    };
    let pods = objects(Kind::Pod).filter_map(|object| pod(&object));
    let slices = objects(Kind::EndpointSlice).filter_map(|object| endpoint(&object));
    pods.chain(slices).collect()
}

fn pod(pod: &Value) -> Option<String> {
    let (meta, status) = (&pod["metadata"], &pod["status"]);
    let name = format!("{}/{}", meta["namespace"].as_str()?, meta["name"].as_str()?);
    Some(format!(
        "    pod       {name:<22} {:<10} podIP {}\n",
        status["phase"].as_str()?,
        status["podIP"].as_str().unwrap_or("none yet")
    ))
}

fn endpoint(slice: &Value) -> Option<String> {
    let (meta, endpoint) = (&slice["metadata"], &slice["endpoints"][0]);
    let service = meta["labels"]["kubernetes.io/service-name"].as_str()?;
    let name = format!("{}/{service}", meta["namespace"].as_str()?);
    Some(format!(
        "    Service   {name:<22} endpoint   {} (pod {}), ready: {}\n",
        endpoint["addresses"][0].as_str()?,
        endpoint["targetRef"]["name"].as_str()?,
        endpoint["conditions"]["ready"]
    ))
}
