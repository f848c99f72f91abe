//! The pods that Services select, and of the endpoints in the API, as `kubectl get` prints them.

use serde_json::Value;

use crate::api::Kind;
use crate::scenario::cluster::Cluster;

/// Pods with labels, then the first endpoint of each Service.
pub fn listing(cluster: &Cluster) -> String {
    let pods = cluster.store.list(Kind::Pod);
    let slices = cluster.store.list(Kind::EndpointSlice);
    pods.iter().filter_map(pod).chain(slices.iter().filter_map(endpoint)).collect()
}

fn pod(pod: &Value) -> Option<String> {
    let (meta, status) = (&pod["metadata"], &pod["status"]);
    let name = format!("{}/{}", meta["namespace"].as_str()?, meta["name"].as_str()?);
    meta["labels"].as_object().filter(|labels| !labels.is_empty())?;
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
