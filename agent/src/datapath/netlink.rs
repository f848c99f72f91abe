//! Traffic control over rtnetlink: asked and answered at once, by interface number.

use super::hook::Hook;
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcMessage, TcOption,
};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{Socket, SocketAddr};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// A filter of an interface's clsact qdisc.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Filters with a lower one run earlier.
    pub priority: u16,
    /// Its number among those of its priority.
    pub handle: u32,
    /// `bpf`, `flower`, ...
    pub kind: String,
    /// Of a BPF filter, as its maker called it.
    pub name: Option<String>,
    /// Id of a BPF filter's program.
    pub program: Option<u32>,
}

/// Filters at a hook, in the order in which they run; none without such a qdisc.
pub fn filters(ifindex: u32, hook: Hook) -> io::Result<Vec<Filter>> {
    let request = RouteNetlinkMessage::GetTrafficFilter(at(ifindex, hook));
    let answers = ask(request, NLM_F_DUMP)?.into_iter();
    Ok(answers
        .filter_map(|answer| match answer {
            RouteNetlinkMessage::NewTrafficFilter(message) => Filter::read(&message),
            _ => None,
        })
        .collect())
}

/// Makes a direct-action BPF filter (`create`), or puts its program into the one that is there: at no moment is there
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
    ask(RouteNetlinkMessage::NewTrafficFilter(message), NLM_F_ACK | flags).map(drop)
}

/// Removes one filter.
pub fn remove_filter(ifindex: u32, hook: Hook, filter: &Filter) -> io::Result<()> {
    let message = named(ifindex, hook, filter);
    ask(RouteNetlinkMessage::DelTrafficFilter(message), NLM_F_ACK).map(drop)
}

/// Adds a clsact qdisc; `EEXIST` if there is one, or an ingress qdisc in its place.
pub fn add_clsact(ifindex: u32) -> io::Result<()> {
    let mut message = clsact(ifindex);
    message.attributes.push(TcAttribute::Kind("clsact".to_owned()));
    let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    ask(RouteNetlinkMessage::NewQueueDiscipline(message), flags).map(drop)
}

/// Removes the clsact qdisc with all its filters.
pub fn remove_clsact(ifindex: u32) -> io::Result<()> {
    let message = clsact(ifindex);
    ask(RouteNetlinkMessage::DelQueueDiscipline(message), NLM_F_ACK).map(drop)
}

/// Whether the interface has a clsact qdisc.
pub fn has_clsact(ifindex: u32) -> io::Result<bool> {
    // The kernel dumps those of all interfaces, whatever is asked for.
    let request = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
    Ok(ask(request, NLM_F_DUMP)?.iter().any(|answer| match answer {
        RouteNetlinkMessage::NewQueueDiscipline(message) => {
            u32::try_from(message.header.index) == Ok(ifindex)
                && message
                    .attributes
                    .contains(&TcAttribute::Kind("clsact".to_owned()))
        }
        _ => false,
    }))
}

impl Filter {
    /// The messages between filters say that a priority is there, and have no handle.
    fn read(message: &TcMessage) -> Option<Self> {
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
    let mut message = message(ifindex);
    message.header.parent = TcHandle::CLSACT;
    message.header.handle = TcHandle {
        major: u16::MAX,
        minor: 0,
    };
    message
}

fn at(ifindex: u32, hook: Hook) -> TcMessage {
    let mut message = message(ifindex);
    message.header.parent = TcHandle {
        major: u16::MAX,
        minor: match hook {
            Hook::From => TcHandle::MIN_INGRESS,
            Hook::To => TcHandle::MIN_EGRESS,
        },
    };
    message
}

fn named(ifindex: u32, hook: Hook, filter: &Filter) -> TcMessage {
    let mut message = at(ifindex, hook);
    message.header.handle = filter.handle.into();
    message.header.info = u32::from(filter.priority) << 16 | u32::from(ETH_P_ALL.to_be());
    message
}

/// Filters look at packets of every protocol.
const ETH_P_ALL: u16 = 3;

fn message(ifindex: u32) -> TcMessage {
    TcMessage::with_index(ifindex.cast_signed())
}

/// One request on a socket of its own, so that no answer can be another request's.
pub fn ask(request: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
    let mut request = NetlinkMessage::from(request);
    request.header.flags = NLM_F_REQUEST | flags;
    request.finalize();
    let mut octets = vec![0; request.buffer_len()];
    request.serialize(&mut octets);
    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&octets, 0)?;
    let mut answers = Vec::new();
    loop {
        let (octets, _) = socket.recv_from_full()?;
        let mut rest = octets.as_slice();
        while !rest.is_empty() {
            let answer: NetlinkMessage<RouteNetlinkMessage> =
                NetlinkMessage::deserialize(rest).map_err(io::Error::other)?;
            let length = (answer.header.length as usize).next_multiple_of(4);
            rest = rest.get(length.max(1)..).unwrap_or_default();
            match answer.payload {
                NetlinkPayload::Done(_) => return Ok(answers),
                NetlinkPayload::Error(error) if error.code.is_none() => return Ok(answers),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(message) => answers.push(message),
                _ => {}
            }
        }
    }
}
