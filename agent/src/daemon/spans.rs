//! Spans of the log: which fact, or which tick, a line of the debug log belongs to. While that
//! level is off, a span costs one look at a flag, and no name is written.

use epguard_core::facts::{Change, Fact};
use std::fmt::{self, Display, Formatter};
use tracing::{Span, debug_span};

/// The span of a fact: `fact{kind="Pod" name=shop/web-1}`. That of a second list, or of another
/// list of some objects, is `second_list`.
pub fn of_fact(fact: &Fact) -> Span {
    let kind = kind(fact);
    let name = FactName(fact);
    if is_part(fact) {
        debug_span!("second_list", kind, %name)
    } else {
        debug_span!("fact", kind, %name)
    }
}

/// The span of the periodic work.
pub fn of_tick() -> Span {
    debug_span!("tick")
}

/// Kind and name of the object that a fact is about: `Pod shop/web-1`.
pub fn describe(fact: &Fact) -> String {
    format!("{} {}", kind(fact), FactName(fact))
}

const fn kind(fact: &Fact) -> &'static str {
    match fact {
        Fact::Pod(_) => "Pod",
        Fact::Slice(_) => "EndpointSlice",
        Fact::Service(_) => "Service",
        Fact::Node(_) | Fact::NodeSeen(_) => "Node",
        Fact::Namespace(_) => "Namespace",
        Fact::ModePolicy(_) => "ConfigMap",
        Fact::LocalAddresses(_) | Fact::Presence(_) | Fact::SocketLb(_) => "report",
    }
}

const fn is_part(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::Pod(Change::Part(_)) | Fact::Slice(Change::Part(_))
    )
}

/// The name of a fact's object, or how long a list is.
struct FactName<'a>(&'a Fact);

impl Display for FactName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fact::Pod(change) => write_name(f, change, |pod| &pod.name),
            Fact::Slice(change) => write_name(f, change, |slice| &slice.name),
            Fact::Service(change) => write_name(f, change, |service| &service.name),
            Fact::Node(change) => write_name(f, change, |node| &node.name),
            Fact::Namespace(change) => write_name(f, change, |namespace| &namespace.name),
            Fact::ModePolicy(_) => f.write_str("of the mode policy"),
            Fact::NodeSeen(seen) => seen.name.fmt(f),
            Fact::LocalAddresses(_) => f.write_str("of the node's addresses"),
            Fact::Presence(_) => f.write_str("of holders of IPs"),
            Fact::SocketLb(_) => f.write_str("of a socket load balancer"),
        }
    }
}

fn write_name<T, N: Display>(
    f: &mut Formatter<'_>,
    change: &Change<T>,
    name: impl Fn(&T) -> &N,
) -> fmt::Result {
    match change {
        Change::Applied(object) | Change::Deleted(object) | Change::Gone(object) => {
            name(object).fmt(f)
        }
        Change::Reset(objects) => write!(f, "list of {}", objects.len()),
        Change::Part(part) => write!(f, "list of {}", part.objects.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_core::facts::{Object as _, Service};

    #[test]
    fn a_fact_is_described_by_the_kind_and_the_name_of_its_object() {
        let json = br#"{"metadata": {"namespace": "shop", "name": "web", "uid": "1b9c6a86-6d5e-4a5c-9a3e-9d2f3c0f6a11"}}"#;
        let service = Service::parse(json).unwrap();
        let list = Fact::Service(Change::Reset(vec![service.clone()]));
        assert_eq!(
            describe(&Fact::Service(Change::Applied(service))),
            "Service shop/web"
        );
        assert_eq!(describe(&list), "Service list of 1");
    }
}
