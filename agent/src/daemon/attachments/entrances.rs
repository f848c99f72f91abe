//! The interfaces at which packets in the name of an endpoint may enter the stack: answers to
//! processes of this node, and replies of redirected flows. Where the program of another project is
//! at the ingress hook it would take them for packets of the IP's holder.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long an interface is left alone after the first look at it: the CNI may still be at work on
/// it.
const NEW: Duration = Duration::from_secs(1);

/// What was seen at the ingress of an interface.
enum Look {
    /// It was looked at once, at that moment: the CNI may still be at work on it.
    Once(Instant),
    /// It was looked at late enough: these programs of other projects are there.
    Settled(Vec<String>),
}

/// What is at the ingress of interfaces that are hooked, and of bridges.
#[derive(Default)]
pub struct Entrances {
    seen: BTreeMap<u32, Look>,
    /// True once the start is over. One look at an interface that existed before the agent is
    /// enough.
    settled: bool,
}

impl Entrances {
    /// The start is over: interfaces that appear from now on are new.
    pub fn settled(&mut self) {
        self.settled = true;
    }

    /// Notes a look at an interface.
    pub fn record_look(&mut self, ifindex: u32, others: Vec<String>) {
        let seen = match self.seen.get(&ifindex) {
            None if self.settled => Look::Once(Instant::now()),
            Some(Look::Once(at)) if at.elapsed() < NEW => return,
            _ => Look::Settled(others),
        };
        self.seen.insert(ifindex, seen);
    }

    /// Drops an interface: another one may get its number.
    pub fn gone(&mut self, ifindex: u32) {
        self.seen.remove(&ifindex);
    }

    /// Whether no program of another project is at the interface's ingress.
    pub fn is_free(&self, ifindex: u32) -> bool {
        self.why_not(ifindex).is_none()
    }

    /// Why nothing may enter there in the name of an endpoint; none if it may.
    pub fn why_not(&self, ifindex: u32) -> Option<String> {
        match self.seen.get(&ifindex) {
            Some(Look::Settled(others)) if others.is_empty() => None,
            Some(Look::Settled(others)) => Some(format!(
                "other programs at the ingress hook ({})",
                others.join(", ")
            )),
            Some(Look::Once(_)) | None => Some("not checked again since it appeared".to_owned()),
        }
    }

    /// Whether the interface is due for another look before the regular one.
    pub fn is_due(&self, ifindex: u32) -> bool {
        match self.seen.get(&ifindex) {
            None => true,
            Some(Look::Once(at)) => at.elapsed() >= NEW,
            Some(Look::Settled(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_free_once_it_was_looked_at_again_and_no_other_program_was_there() {
        let mut entrances = Entrances::default();
        // This one was there before the agent.
        entrances.record_look(2, vec![]);
        assert!(entrances.is_free(2) && !entrances.is_due(2));
        entrances.settled();
        assert!(entrances.is_due(1) && !entrances.is_free(1));
        entrances.record_look(1, vec![]);
        // The CNI may attach its programs now.
        entrances.record_look(1, vec![]);
        assert!(!entrances.is_due(1) && !entrances.is_free(1));
        entrances
            .seen
            .insert(1, Look::Once(Instant::now().checked_sub(NEW).unwrap()));
        assert!(entrances.is_due(1));
        entrances.record_look(1, vec![]);
        assert!(entrances.is_free(1) && !entrances.is_due(1));
        entrances.record_look(1, vec!["tcx cil_from_container".to_owned()]);
        let why = "other programs at the ingress hook (tcx cil_from_container)";
        assert_eq!(entrances.why_not(1).as_deref(), Some(why));
        entrances.record_look(1, vec![]);
        assert!(entrances.is_free(1));
        entrances.gone(1);
        assert!(!entrances.is_free(1));
    }
}
