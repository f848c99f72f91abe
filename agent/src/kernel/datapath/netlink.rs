//! Traffic control over rtnetlink: synchronous requests, by interface number.

use super::hook::Hook;
use crate::node::netlink::route::ask;
use rtnetlink::packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcMessage, TcOption,
};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// A filter of an interface's clsact qdisc.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Filters with a lower one run earlier.
    pub priority: u16,
    /// Its number among the filters of its priority.
    pub handle: u32,
    /// `bpf`, `flower`, ...
    pub kind: String,
    /// Name of a BPF filter, as its maker set it.
    pub name: Option<String>,
    /// Id of a BPF filter's program.
    pub program: Option<u32>,
}

/// A queueing discipline.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Qdisc {
    /// Number of its interface.
    pub ifindex: u32,
    /// `fq_codel`, `clsact`, ...
    pub kind: String,
}

/// Filters at a hook, in the order in which they run; none without a clsact qdisc.
pub fn filters(ifindex: u32, parent: Hook) -> io::Result<Vec<Filter>> {
    let request = RouteNetlinkMessage::GetTrafficFilter(message(ifindex, parent));
    Ok(ask(&request, NLM_F_DUMP)?.iter().filter_map(Filter::of).collect())
}

/// Queueing disciplines of all interfaces of this network namespace.
pub fn qdiscs() -> io::Result<Vec<Qdisc>> {
    let request = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
    Ok(ask(&request, NLM_F_DUMP)?.iter().filter_map(Qdisc::of).collect())
}

/// Makes a direct-action BPF filter (`create`), or replaces the program of the existing one: at no moment is there
/// none, or two (`list_replace_rcu` in `net/sched/cls_bpf.c`).
pub fn put_filter(
    ifindex: u32,
    hook: Hook,
    filter: &Filter,
    program: BorrowedFd<'_>,
    create: bool,
) -> io::Result<()> {
    let mut message = named(ifindex, hook, filter);
    let options = [
        TcFilterBpfOption::ProgFd(program.as_raw_fd().cast_unsigned()),
        TcFilterBpfOption::ProgName(filter.name.clone().unwrap_or_default()),
        TcFilterBpfOption::Flags(TcBpfFlags::DirectAction),
    ];
    message.attributes = vec![
        TcAttribute::Kind(TcFilterBpf::KIND.to_owned()),
        TcAttribute::Options(options.map(TcOption::Bpf).into()),
    ];
    let flags = if create { NLM_F_CREATE | NLM_F_EXCL } else { 0 };
    ask(&RouteNetlinkMessage::NewTrafficFilter(message), NLM_F_ACK | flags).map(drop)
}

/// Removes one filter.
pub fn remove_filter(ifindex: u32, hook: Hook, filter: &Filter) -> io::Result<()> {
    let message = named(ifindex, hook, filter);
    ask(&RouteNetlinkMessage::DelTrafficFilter(message), NLM_F_ACK).map(drop)
}

/// Adds a clsact qdisc; `EEXIST` if there is one, or an ingress qdisc in its place.
pub fn add_clsact(ifindex: u32) -> io::Result<()> {
    let mut message = clsact(ifindex);
    message.attributes.push(TcAttribute::Kind("clsact".to_owned()));
    let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    ask(&RouteNetlinkMessage::NewQueueDiscipline(message), flags).map(drop)
}

/// Removes the clsact qdisc with all its filters.
pub fn remove_clsact(ifindex: u32) -> io::Result<()> {
    let message = clsact(ifindex);
    ask(&RouteNetlinkMessage::DelQueueDiscipline(message), NLM_F_ACK).map(drop)
}

/// Whether the interface has a clsact qdisc.
pub fn has_clsact(ifindex: u32) -> io::Result<bool> {
    // The kernel dumps the qdiscs of all interfaces, regardless of the request.
    let is_one = |qdisc: &Qdisc| qdisc.ifindex == ifindex && qdisc.kind == "clsact";
    Ok(qdiscs()?.iter().any(is_one))
}

impl Qdisc {
    /// Reads a qdisc in a listing of the kernel.
    fn of(answer: &RouteNetlinkMessage) -> Option<Self> {
        let RouteNetlinkMessage::NewQueueDiscipline(message) = answer else {
            return None;
        };
        let kind = |attribute: &TcAttribute| match attribute {
            TcAttribute::Kind(kind) => Some(kind.clone()),
            _ => None,
        };
        Some(Self {
            ifindex: u32::try_from(message.header.index).ok()?,
            kind: message.attributes.iter().find_map(kind).unwrap_or_default(),
        })
    }
}

impl Filter {
    /// Reads a filter in a listing of the kernel. The messages between filters only name a priority, and have no
    /// handle.
    fn of(answer: &RouteNetlinkMessage) -> Option<Self> {
        let RouteNetlinkMessage::NewTrafficFilter(message) = answer else {
            return None;
        };
        let mut filter = Self {
            priority: u16::try_from(message.header.info >> 16).ok()?,
            handle: message.header.handle.into(),
            ..Self::default()
        };
        if filter.handle == 0 {
            return None;
        }
        for attribute in &message.attributes {
            match attribute {
                TcAttribute::Kind(kind) => filter.kind.clone_from(kind),
                TcAttribute::Options(options) => options.iter().for_each(|option| match option {
                    TcOption::Bpf(TcFilterBpfOption::ProgName(name)) => filter.name = Some(name.clone()),
                    TcOption::Bpf(TcFilterBpfOption::ProgId(id)) => filter.program = Some(*id),
                    _ => {}
                }),
                _ => {}
            }
        }
        Some(filter)
    }
}

fn clsact(ifindex: u32) -> TcMessage {
    let mut message = message(ifindex, TcHandle::CLSACT);
    message.header.handle = TcHandle { major: u16::MAX, minor: 0 };
    message
}

impl From<Hook> for TcHandle {
    fn from(hook: Hook) -> Self {
        let minor = match hook {
            Hook::Ingress => Self::MIN_INGRESS,
            Hook::Egress => Self::MIN_EGRESS,
        };
        Self { major: u16::MAX, minor }
    }
}

fn named(ifindex: u32, hook: Hook, filter: &Filter) -> TcMessage {
    let mut message = message(ifindex, hook);
    message.header.handle = filter.handle.into();
    message.header.info = u32::from(filter.priority) << 16 | u32::from(ETH_P_ALL.to_be());
    message
}

/// The protocol of filters: packets of every protocol.
const ETH_P_ALL: u16 = 3;

fn message(ifindex: u32, parent: impl Into<TcHandle>) -> TcMessage {
    let mut message = TcMessage::with_index(ifindex.cast_signed());
    message.header.parent = parent.into();
    message
}

#[cfg(test)]
#[path = "netlink_fuzz.rs"]
mod fuzz;
