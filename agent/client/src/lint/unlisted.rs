//! What the lists lack: it is unknown, and not absent.

use crate::watch::{Failure, OneList};
use anyhow::{Result, anyhow};
use epguard_core::facts::ObjectName;

/// What was not listed. It is unknown, and not absent.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Unlisted {
    /// Pods that the credentials do not permit.
    pub pods: UnlistedPods,
    /// Pods that could not be read; the name is empty where that could not be read, either.
    pub unreadable_pods: Vec<ObjectName>,
    /// True if the credentials do not permit the Services of other namespaces.
    pub services: bool,
    /// True if the credentials do not permit the Nodes.
    pub nodes: bool,
    /// What could not be read, in one line each.
    pub skipped: Vec<String>,
}

/// Which pods the credentials do not permit to list.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum UnlistedPods {
    /// None: all pods were listed.
    #[default]
    None,
    /// Those outside of this namespace.
    OutsideOf(String),
    /// All.
    All,
}

impl Unlisted {
    /// The objects of a list; keeps what of it could not be read.
    ///
    /// Errors name the list, the cause and the remedy.
    pub fn take<O>(
        &mut self,
        list: Result<OneList<O>, Failure>,
        namespace: Option<&str>,
    ) -> Result<Vec<O>> {
        let list = list.map_err(|failure| {
            let is_hinted = failure.is_forbidden() && namespace.is_none();
            let hint = if is_hinted {
                ", or pass -n NAMESPACE to check only one"
            } else {
                ""
            };
            anyhow!("{}{hint}", failure.error)
        })?;
        self.skipped.extend(list.skipped);
        Ok(list.objects)
    }

    /// True if a pod of this name would have been listed.
    pub fn lists_pod(&self, name: &ObjectName) -> bool {
        let is_permitted = match &self.pods {
            UnlistedPods::None => true,
            UnlistedPods::OutsideOf(namespace) => *namespace == *name.namespace,
            UnlistedPods::All => false,
        };
        let mut unreadable = self.unreadable_pods.iter();
        is_permitted && !unreadable.any(|pod| pod == name || pod.name.is_empty())
    }

    /// True if every pod was listed, so that an address that none of them shows is shown by none.
    pub fn lists_all_pods(&self) -> bool {
        self.pods == UnlistedPods::None && self.unreadable_pods.is_empty()
    }

    /// What is unknown, in one line each.
    pub fn to_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match self.pods {
            UnlistedPods::None => {}
            UnlistedPods::OutsideOf(_) => lines.push(OTHER_PODS.to_owned()),
            UnlistedPods::All => lines.push(ALL_PODS.to_owned()),
        }
        if self.services {
            lines.push(OTHER_SERVICES.to_owned());
        }
        if self.nodes {
            lines.push(NODES.to_owned());
        }
        lines.extend(self.skipped.iter().cloned());
        lines
    }
}

/// What fewer rights leave unknown.
const OTHER_PODS: &str = "pods of other namespaces: may not list them, so whether they exist, and which addresses they have, is unknown";
const ALL_PODS: &str = "pods: may not list them, so whether a pod exists, and which pod has an address, is unknown; with rights in one namespace pass -n NAMESPACE";
const OTHER_SERVICES: &str = "Services of other namespaces: may not list them, so whether a pod has the address of one is unknown";
const NODES: &str =
    "nodes: may not list them, so which addresses are in their ranges, or are a node's, is unknown";
