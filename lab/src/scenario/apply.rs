//! The objects of a story in the API: those that exist from the start, slices, and what steps apply, patch and delete.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::format::{Condition, Patch, Scenario};
use super::names;
use super::objects;
use crate::api::{Kind, ObjectRef};

impl Cluster {
    /// Sets the endpoints of a Service's slice, or slices: pods, with the addresses that the API shows.
    pub fn set_slice(&mut self, service: &str, conditions: &BTreeMap<String, Condition>) -> Result<()> {
        let declared =
            self.services.get(service).with_context(|| format!("there is no Service {service}"))?;
        let (mut primary, mut other) = (Vec::new(), Vec::new());
        for (alias, condition) in conditions {
            let pod = self.names.pod(alias)?;
            let published = self.objects.get(alias).and_then(|object| object.ip);
            let endpoint = |ip| objects::endpoint(pod, &self.cast[alias].node, ip, *condition);
            primary.push(endpoint(pod.address(declared, published)?));
            other.extend(pod.other_family.map(endpoint));
        }
        let is_ipv4 = self.names.is_ipv4();
        let slices = [(("lab", is_ipv4), primary), (("lab-2", !is_ipv4), other)];
        for (id, endpoints) in slices.into_iter().take(1 + usize::from(declared.dual_stack)) {
            let slice = objects::slice(service, id, declared, &endpoints);
            self.store.apply(slice).with_context(|| format!("slice of {service}"))?;
        }
        Ok(())
    }

    /// Creates objects, or merges into them.
    pub fn apply(&self, objects: &[Value]) -> Result<()> {
        objects.iter().try_for_each(|object| {
            let object = self.names.expand(object)?;
            if let Some(namespace) = object["metadata"]["namespace"].as_str() {
                self.store.ensure_namespace(namespace)?;
            }
            self.store.apply(object)?;
            Ok(())
        })
    }

    /// Merges a patch into an object.
    pub fn patch(&self, patch: &Patch) -> Result<()> {
        let id = object_ref(&self.names.expand_text(&patch.of)?)?;
        self.store.patch(&id, &self.names.expand(&patch.merge)?)?;
        Ok(())
    }

    /// Deletes each `Kind namespace/name` at once.
    pub fn delete(&self, objects: &[String]) -> Result<()> {
        objects.iter().try_for_each(|what| {
            let id = object_ref(&self.names.expand_text(what)?)?;
            self.store.delete(&id, Some(0)).with_context(|| what.clone())?;
            Ok(())
        })
    }

    pub(super) fn create_namespaces(&self, scenario: &Scenario) -> Result<()> {
        for (name, namespace) in &scenario.namespaces {
            self.store.ensure_namespace(name)?;
            let annotations = json!({"metadata": {"annotations": namespace.annotations}});
            let id = ObjectRef::new(Kind::Namespace, "", name);
            self.store.patch(&id, &annotations)?;
        }
        let pods = self.cast.values().map(|pod| &pod.is);
        for full in pods.chain(self.services.keys()) {
            self.store.ensure_namespace(&names::split(full).0)?;
        }
        Ok(())
    }

    pub(super) fn create_nodes(&self) -> Result<()> {
        for (name, number) in [("node-a", 1), ("node-b", 2)] {
            self.store.apply(objects::node(self.topology.node(name)?, number))?;
        }
        Ok(())
    }

    pub(super) fn create_services(&self) -> Result<()> {
        for (number, (name, service)) in (1..).zip(&self.services) {
            self.store.apply(objects::service(name, number, service, self.names.service(name)?))?;
        }
        Ok(())
    }
}

/// Reads `Kind namespace/name`, or `Kind name` for kinds without namespace.
fn object_ref(what: &str) -> Result<ObjectRef> {
    let (kind, name) =
        what.split_once(' ').with_context(|| format!("{what:?} is not `Kind namespace/name`"))?;
    let kind: Kind = kind.parse()?;
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    Ok(ObjectRef::new(kind, namespace, name))
}
