//! The Services whose selector does not prove which pods are their own.

use crate::facts::ObjectName;
use std::collections::BTreeSet;

/// The Services whose selector proves nothing.
#[derive(Debug, Clone, Default)]
pub struct Selectors {
    /// Slices of these list pods that the selector does not pick, or did recently.
    unselective: BTreeSet<ObjectName>,
    /// These have to be compared anew.
    doubtful: BTreeSet<ObjectName>,
}

impl Selectors {
    /// True if the selector of the Service proves which pods are its own.
    pub fn proves(&self, name: &ObjectName) -> bool {
        !self.unselective.contains(name) && !self.doubtful.contains(name)
    }

    /// True if slices of the Service list pods that its selector does not pick.
    pub fn is_unselective(&self, name: &ObjectName) -> bool {
        self.unselective.contains(name)
    }

    /// Has the Service compared anew.
    pub fn doubt(&mut self, name: &ObjectName) {
        self.doubtful.insert(name.clone());
    }

    /// True if the Service has to be compared anew, which is done now.
    pub fn take_doubt(&mut self, name: &ObjectName) -> bool {
        self.doubtful.remove(name)
    }

    /// Sets whether slices of the Service list pods that its selector does not pick.
    pub fn set_unselective(&mut self, name: &ObjectName, is_unselective: bool) {
        if is_unselective {
            self.unselective.insert(name.clone());
        } else {
            self.unselective.remove(name);
        }
    }
}
