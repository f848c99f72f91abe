//! One run of a story: which of the variants it is told in.

use std::fmt;

use super::format::{Caller, Family, Runs};
use crate::net::{Cni, Overlay, TopologyOptions};
use crate::proxy::ProxyOptions;

/// One combination of [`Runs`].
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The family of every address.
    pub family: Family,
    /// Who calls.
    pub caller: Caller,
    /// How pods are attached.
    pub cni: Cni,
    /// How nodes reach each other's pods.
    pub overlay: Overlay,
}

impl Variant {
    /// Every combination, in the order of the lists.
    #[must_use]
    pub fn all(runs: &Runs) -> Vec<Self> {
        let mut variants = Vec::new();
        for &cni in &runs.cni {
            for &overlay in &runs.overlay {
                for &caller in &runs.caller {
                    variants.extend(runs.family.iter().map(|&family| Self {
                        family,
                        caller,
                        cni,
                        overlay,
                    }));
                }
            }
        }
        variants
    }

    pub(super) fn topology(self) -> TopologyOptions {
        TopologyOptions {
            cni: self.cni,
            overlay: self.overlay,
        }
    }

    pub(super) fn proxy(self) -> ProxyOptions {
        ProxyOptions {
            masquerade_all: self.caller == Caller::Masquerade,
        }
    }

    /// The host that calls, unless a call says otherwise.
    pub(super) fn caller_host(self) -> &'static str {
        match self.caller {
            Caller::Pod | Caller::Masquerade => "client",
            Caller::Node => "node-a",
            Caller::Nodeport => "external",
        }
    }
}

/// What differs from the usual: IPv4 pods on a point-to-point CNI.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.family == Family::Ipv4 {
            "ipv4"
        } else {
            "ipv6"
        })?;
        f.write_str(match self.caller {
            Caller::Pod => "",
            Caller::Node => " node",
            Caller::Nodeport => " nodeport",
            Caller::Masquerade => " masquerade",
        })?;
        if self.cni == Cni::Bridge {
            f.write_str(" bridge")?;
        }
        if self.overlay == Overlay::Vxlan {
            f.write_str(" vxlan")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_told_once_for_each_combination() {
        let runs = Runs {
            caller: vec![Caller::Pod, Caller::Node],
            ..Runs::default()
        };
        let names: Vec<String> = Variant::all(&runs).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["ipv4", "ipv6", "ipv4 node", "ipv6 node"]);
    }
}
