//! The results of a survey.

use super::programs::Program;
use super::uses::Use;

/// Everything foreign that can touch packets of this network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// Everything at the interfaces' hooks, whether or not it uses a carrier, and everything else that uses one.
    pub found: Vec<Found>,
}

/// One program, filter or queueing discipline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Description: `eth0 tcx ingress`, `tail call of cil_from_container (41)`, `eth0 qdisc gred`, `cgroup_skb`.
    pub place: String,
    /// None for what the kernel does itself, and for programs that cannot be listed.
    pub program: Option<Program>,
    /// Its possible use of the carriers. At a hook that includes what the kernel does with `tc_classid` and `tc_index`
    /// for it, and not the programs that it tail-calls: each of them is found by itself.
    pub uses: Use,
    /// Number of its interface; none for a place that is not an interface.
    pub ifindex: Option<u32>,
    /// The kind of its place.
    pub at: Place,
    /// True if it runs after all programs of ours at the same hook of the interface, or there is none.
    pub after_ours: bool,
    /// [`Found::uses`], and those of all programs that it may tail-call.
    pub with_tail_calls: Use,
}

/// The kind of place where something runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A TCX program.
    Tcx {
        /// False: egress.
        ingress: bool,
    },
    /// A program of a netkit device.
    Netkit,
    /// A filter of a clsact or ingress qdisc.
    Clsact {
        /// False: egress.
        ingress: bool,
    },
    /// A filter of a queueing discipline that packets leave through.
    Filter,
    /// A queueing discipline.
    Qdisc,
    /// Tail-called from a program that is found, too.
    TailCall,
    /// Anywhere: attached to a cgroup, a route, a socket, an action, netfilter or another program.
    Anywhere,
}

impl Survey {
    /// The possible use by all of it together.
    #[must_use]
    pub fn uses(&self) -> Use {
        together(&self.found)
    }
}

/// The possible use by all of them together.
pub(super) fn together(found: &[Found]) -> Use {
    found.iter().fold(Use::NONE, |all, found| all | found.uses)
}

impl Found {
    /// Whether it runs after ours at ingress and what ours wrote may be lost there.
    ///
    /// * A TCX program that passes a packet makes the kernel copy `tc_classid` to `tc_index` (`tcx_action_code()` in
    ///   `include/net/tcx.h`): harmless only if our bits are in both (`classid_is_carried`) and the program keeps both.
    /// * A clsact filter that accepts a packet makes the kernel write its class to `tc_index` (`tc_run()` in
    ///   `net/core/dev.c`), and each BPF filter overwrites `tc_classid`.
    #[must_use]
    pub fn may_wipe(&self, classid_is_carried: bool) -> bool {
        let uses = self.with_tail_calls;
        match self.at {
            Place::Tcx { ingress: true } => {
                let writes = uses.tc_index.clears | uses.tc_classid.clears != 0;
                self.after_ours && (writes || !classid_is_carried)
            }
            Place::Clsact { ingress: true } => self.after_ours,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::neighbours::FieldUse;

    #[test]
    fn a_program_that_keeps_both_fields_wipes_only_bits_that_differ() {
        let mut found = Found {
            place: String::new(),
            program: None,
            uses: Use::NONE,
            ifindex: Some(1),
            at: Place::Tcx { ingress: true },
            after_ours: true,
            with_tail_calls: Use::NONE,
        };
        assert!(found.may_wipe(false) && !found.may_wipe(true));
        found.with_tail_calls.tc_index = FieldUse {
            clears: 4,
            ..FieldUse::NONE
        };
        assert!(found.may_wipe(true), "a program that it tail-calls clears a bit");
        found.at = Place::Tcx { ingress: false };
        assert!(!found.may_wipe(false), "egress");
        found.at = Place::Clsact { ingress: true };
        assert!(found.may_wipe(true), "a filter may accept");
        found.after_ours = false;
        assert!(!found.may_wipe(false), "it runs before ours");
    }
}
