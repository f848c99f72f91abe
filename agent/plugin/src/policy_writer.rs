//! Who writes the `ConfigMap` of the mode policy, by its `managedFields`, labels and annotations.
//!
//! A GitOps controller writes back what its repository has, within seconds or minutes. So a change
//! by hand needs a word about it.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

/// The field manager of what this plugin writes.
pub const OURS: &str = "kubectl-epguard";

/// Field managers of GitOps controllers: Argo CD's, and Flux' two.
const CONTROLLERS: [&str; 4] = [
    "argocd-controller",
    "argocd-application-controller",
    "kustomize-controller",
    "helm-controller",
];

/// Labels and annotations by which these controllers find the objects that they made, and the
/// controller.
const MARKS: [(&str, &str); 4] = [
    ("argocd.argoproj.io/tracking-id", "Argo CD"),
    ("argocd.argoproj.io/instance", "Argo CD"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux"),
    ("helm.toolkit.fluxcd.io/name", "Flux"),
];

/// The field manager that last wrote a key of the `ConfigMap`; none if that is not recorded.
pub fn last_writer(map: &ConfigMap) -> Option<&str> {
    let writers = map.metadata.managed_fields.iter().flatten();
    let of_data = writers.filter(|entry| owns_data(entry));
    // Of entries without a time, any may be the last.
    let last = of_data.max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    last.manager.as_deref()
}

/// The GitOps controller that writes the `ConfigMap`, too; none if there is none.
pub fn gitops_controller(map: &ConfigMap) -> Option<&str> {
    let labels = map.metadata.labels.iter().flatten();
    let annotations = map.metadata.annotations.iter().flatten();
    for (name, _) in labels.chain(annotations) {
        if let Some((_, controller)) = MARKS.iter().find(|(mark, _)| mark == name) {
            return Some(controller);
        }
    }
    let writers = map.metadata.managed_fields.iter().flatten();
    writers
        .filter(|entry| owns_data(entry))
        .filter_map(|entry| entry.manager.as_deref())
        .find(|manager| CONTROLLERS.contains(manager))
}

fn owns_data(entry: &ManagedFieldsEntry) -> bool {
    let fields = entry.fields_v1.as_ref();
    fields.is_some_and(|fields| !fields.0["f:data"].is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn map(metadata: &Value) -> ConfigMap {
        serde_json::from_value(json!({"metadata": metadata, "data": {"mode": "observe"}})).unwrap()
    }

    fn entry(manager: &str, time: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": "Update", "time": time, "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    #[test]
    fn the_manager_that_wrote_a_key_last_is_the_last_writer() {
        let data = json!({"f:data": {"f:mode": {}}});
        let entries = json!({"managedFields": [
            entry("kubectl-epguard", "2026-01-01T10:00:05Z", &data),
            entry("helm", "2026-01-01T10:00:00Z", &data),
            entry("labeller", "2026-01-01T11:00:00Z", &json!({"f:metadata": {"f:labels": {}}})),
        ]});
        assert_eq!(last_writer(&map(&entries)), Some(OURS));
        assert_eq!(gitops_controller(&map(&entries)), None);
        assert_eq!(last_writer(&map(&json!({}))), None);
    }

    #[test]
    fn a_gitops_controller_is_found_by_what_it_owns_or_by_its_marks() {
        let data = json!({"f:data": {".": {}, "f:mode": {}}});
        let managed =
            json!({"managedFields": [entry("argocd-controller", "2026-01-01T10:00:00Z", &data)]});
        assert_eq!(gitops_controller(&map(&managed)), Some("argocd-controller"));
        let labels = json!({"managedFields": [
            entry("helm-controller", "2026-01-01T10:00:00Z", &json!({"f:metadata": {}})),
        ]});
        assert_eq!(gitops_controller(&map(&labels)), None, "it owns no key");
        let flux = json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "epguard"}});
        assert_eq!(gitops_controller(&map(&flux)), Some("Flux"));
        let argo = json!({"annotations": {"argocd.argoproj.io/tracking-id": "epguard:/ConfigMap:epguard/epguard"}});
        assert_eq!(gitops_controller(&map(&argo)), Some("Argo CD"));
    }
}
