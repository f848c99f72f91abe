//! INTERFACES: the role of each interface, and whether packets may enter there in the name of an
//! endpoint, as far as it is certain.
//!
//! A role ends with the event that makes it doubtful. It begins once the node's thread has hooked
//! the interface since its last event: that thread may wait for the kernel, and the number of an
//! interface that is gone may be another one's by then.

use crate::daemon::node_thread::{NodeEvent, Snapshot};
use crate::kernel::maps::Writer;
use crate::node::netlink::{NetworkChange, RawRole, Roles, Selection};
use std::collections::{BTreeMap, BTreeSet};

/// The node's interfaces, as netlink reports them.
#[derive(Debug)]
pub struct Interfaces {
    roles: Roles,
    /// The numbers of the events that announced them.
    events: BTreeMap<u32, u64>,
    /// The number of the last event about interfaces.
    last: u64,
    /// What is known may be out of date until the thread has carried out the event with this
    /// number.
    doubtful_until: u64,
    /// What INTERFACES holds.
    written: BTreeMap<u32, RawRole>,
    /// Whether the roles that an earlier process left are removed.
    settled: bool,
}

impl Interfaces {
    /// None is known yet.
    pub fn new(selection: Selection) -> Self {
        Self {
            roles: Roles::new(selection),
            events: BTreeMap::new(),
            last: 0,
            doubtful_until: 0,
            written: BTreeMap::new(),
            settled: false,
        }
    }

    /// Takes in what is known from an event.
    pub fn apply_event(&mut self, event: &NodeEvent) {
        let number = event.number;
        match &event.change {
            NetworkChange::Appeared(interface) => {
                self.events.insert(interface.ifindex, number);
                self.roles.add(interface);
            }
            NetworkChange::Gone { ifindex } => {
                self.events.remove(ifindex);
                self.roles.remove(*ifindex);
            }
            NetworkChange::Defaults(defaults) => {
                self.roles.set_defaults(defaults.clone());
            }
            NetworkChange::Lost => self.doubtful_until = u64::MAX,
            // One may have been made anew, and have lost its hooks.
            NetworkChange::Recovered => self.doubtful_until = number,
            NetworkChange::Settled => {}
            NetworkChange::Addresses(_)
            | NetworkChange::Routes(_)
            | NetworkChange::Announced(_) => return,
        }
        self.last = number;
    }

    /// True while netlink shows nothing.
    pub const fn are_unknown(&self) -> bool {
        self.doubtful_until == u64::MAX
    }

    /// True if the thread has carried out all events.
    pub const fn are_all_in(&self, snapshot: &Snapshot) -> bool {
        self.last <= snapshot.event
    }

    /// Writes the roles that changed. An interface without our hooks has none, because it proves
    /// nothing.
    pub fn write(&mut self, snapshot: &Snapshot, writer: &mut Writer) {
        let wanted = self.wanted(snapshot);
        let gone: Vec<u32> = self
            .written
            .keys()
            .filter(|ifindex| !wanted.contains_key(ifindex))
            .copied()
            .collect();
        for ifindex in gone {
            if writes(writer, ifindex, None) {
                self.written.remove(&ifindex);
            }
        }
        for (ifindex, role) in wanted {
            if self.written.get(&ifindex) != Some(&role) && writes(writer, ifindex, Some(role)) {
                self.written.insert(ifindex, role);
            }
        }
        if snapshot.settled && !self.settled {
            self.settled = true;
            writer.retain_roles(|ifindex| self.written.contains_key(&ifindex));
        }
    }

    /// The interfaces that were hooked after the event that announced them.
    fn hooked(&self, snapshot: &Snapshot) -> BTreeSet<u32> {
        let mut hooked = BTreeSet::new();
        for interface in &snapshot.interfaces {
            let ifindex = interface.shown.ifindex;
            if interface.shown.attached && self.events.get(&ifindex) == Some(&interface.event) {
                hooked.insert(ifindex);
            }
        }
        hooked
    }

    /// What is certain. An interface that is hooked and has no role may be an entrance, too.
    fn wanted(&self, snapshot: &Snapshot) -> BTreeMap<u32, RawRole> {
        if self.doubtful_until > snapshot.event {
            return BTreeMap::new();
        }
        let hooked = self.hooked(snapshot);
        let mut wanted: BTreeMap<u32, RawRole> = hooked
            .iter()
            .map(|ifindex| (*ifindex, RawRole::default()))
            .collect();
        for (ifindex, role) in self.roles.numbers(|ifindex| hooked.contains(&ifindex)) {
            if hooked.contains(&ifindex) || self.roles.role(ifindex).is_none() {
                wanted.insert(ifindex, RawRole::from(role));
            }
        }
        for (ifindex, role) in &mut wanted {
            let event = self.events.get(ifindex);
            if event.is_some() && snapshot.entrances.get(ifindex) == event {
                role.number |= RawRole::TAKES_ANSWERS;
            }
            if self.roles.is_bridge(*ifindex) {
                role.number |= RawRole::BRIDGE;
            }
        }
        wanted.retain(|_, role| *role != RawRole::default());
        wanted
    }
}

/// Writes or removes a role. False if that fails: it is tried again.
fn writes(writer: &mut Writer, ifindex: u32, role: Option<RawRole>) -> bool {
    let written = writer.set_role(ifindex, role);
    if let Err(error) = &written {
        tracing::warn!(
            ifindex,
            error = format!("{error:#}"),
            "a role is tried again: Cilium's records and `terminated` need it"
        );
    }
    written.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::node_thread::HookedInterface;
    use crate::node::netlink::{Interface, Role};
    use crate::shared::status::Attachment;
    use std::time::Duration;

    fn event(number: u64, change: NetworkChange) -> NodeEvent {
        NodeEvent {
            number,
            received: Duration::ZERO,
            change,
        }
    }

    /// A physical interface, or a pod's.
    fn appeared(number: u64, kind: &str) -> NodeEvent {
        let interface = Interface {
            ifindex: 7,
            name: "if7".into(),
            kind: kind.into(),
            ..Interface::default()
        };
        event(number, NetworkChange::Appeared(interface))
    }

    /// What the thread shows once it has hooked the interface that this event announced.
    fn hooked(event: u64) -> Snapshot {
        let shown = Attachment {
            ifindex: 7,
            attached: true,
            ..Attachment::default()
        };
        let interfaces = vec![HookedInterface { event, shown }];
        Snapshot {
            event,
            interfaces,
            ..Snapshot::default()
        }
    }

    fn wanted(events: &[NodeEvent], snapshot: &Snapshot) -> Option<Role> {
        let mut interfaces = Interfaces::new(Selection::default());
        for event in events {
            interfaces.apply_event(event);
        }
        interfaces.wanted(snapshot).remove(&7)?.role()
    }

    #[test]
    fn an_interface_takes_answers_once_the_one_that_has_its_number_now_was_looked_at() {
        let takes = |events: &[NodeEvent], looked_at: u64| {
            let mut interfaces = Interfaces::new(Selection::default());
            for event in events {
                interfaces.apply_event(event);
            }
            let snapshot = Snapshot {
                entrances: [(7, looked_at)].into(),
                ..hooked(3)
            };
            let role = interfaces.wanted(&snapshot).remove(&7);
            role.is_some_and(|role| role.number & RawRole::TAKES_ANSWERS != 0)
        };
        let events = [
            appeared(1, "veth"),
            event(2, NetworkChange::Gone { ifindex: 7 }),
            appeared(3, "veth"),
        ];
        assert!(!takes(&events, 1), "the one that is gone was looked at");
        assert!(takes(&events, 3));
    }

    #[test]
    fn an_interface_with_the_number_of_one_that_is_gone_has_a_role_once_it_is_hooked_itself() {
        let mut events = vec![appeared(1, "")];
        assert_eq!(
            wanted(&events, &Snapshot::default()),
            None,
            "not hooked yet"
        );
        assert_eq!(wanted(&events, &hooked(1)), Some(Role::Uplink));
        events.push(event(2, NetworkChange::Gone { ifindex: 7 }));
        assert_eq!(wanted(&events, &hooked(1)), None);
        events.push(appeared(3, "veth"));
        assert_eq!(
            wanted(&events, &hooked(1)),
            None,
            "the hooks are those of the one that is gone"
        );
        assert_eq!(wanted(&events, &hooked(3)), Some(Role::Pod));
    }

    #[test]
    fn interfaces_are_unknown_from_a_loss_until_netlink_is_back() {
        let mut interfaces = Interfaces::new(Selection::default());
        let mut seen = Vec::new();
        for change in [
            NetworkChange::Settled,
            NetworkChange::Lost,
            NetworkChange::Recovered,
        ] {
            interfaces.apply_event(&event(7, change));
            seen.push(interfaces.are_unknown());
        }
        assert_eq!(seen, [false, true, false]);
    }

    #[test]
    fn interfaces_that_may_have_changed_unseen_have_no_role_until_their_hooks_are_checked() {
        let mut events = vec![appeared(1, ""), event(2, NetworkChange::Lost)];
        assert_eq!(
            wanted(
                &events,
                &Snapshot {
                    event: 2,
                    ..hooked(1)
                }
            ),
            None
        );
        events.push(event(3, NetworkChange::Recovered));
        assert_eq!(
            wanted(
                &events,
                &Snapshot {
                    event: 2,
                    ..hooked(1)
                }
            ),
            None
        );
        assert_eq!(
            wanted(
                &events,
                &Snapshot {
                    event: 3,
                    ..hooked(1)
                }
            ),
            Some(Role::Uplink)
        );
    }
}
