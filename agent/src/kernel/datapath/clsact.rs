//! Filters of one interface's clsact qdisc, for kernels without TCX, over rtnetlink: synchronous
//! requests, by interface number.
//!
//! A filter of ours is known by its priority, its handle and its name together, so that it is found
//! again after a crash. The pin directory notes which qdiscs are ours; one with filters of other
//! programs stays.

use super::bpf::is_one_of;
use super::hook::Hook;
use super::pins::Pins;
use crate::node::netlink::only;
use crate::node::netlink::route::ask;
use anyhow::{Context as _, Result, ensure};
use nix::libc;
use rtnetlink::packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{
    TcAttribute, TcBpfFlags, TcFilterBpf, TcFilterBpfOption, TcHandle, TcMessage, TcOption,
};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::{fs, io};

/// Our filters run before all others: the lowest number, and among filters of one priority the
/// youngest runs first.
const PRIORITY: u16 = 1;

/// Handle of our filters: `epg` and 1, which no other program uses by chance.
const HANDLE: u32 = 0x6570_6701;

/// Makes the qdisc and the filter, or replaces the program of the existing filter.
pub fn attach(pins: &Pins, ifindex: u32, hook: Hook, program: BorrowedFd<'_>) -> Result<()> {
    add_qdisc(pins, ifindex)?;
    let taken = filters(ifindex, hook)
        .context("cannot list filters")?
        .into_iter()
        .find(|filter| (filter.priority, filter.handle) == (PRIORITY, HANDLE));
    if let Some(foreign) = taken.as_ref().filter(|filter| !is_ours(filter, hook)) {
        anyhow::bail!(
            "the clsact filter with priority {PRIORITY} and handle {HANDLE:#x} belongs to another program ({foreign:?}): remove it"
        );
    }
    put_filter(ifindex, hook, program, taken.is_none())
        .with_context(|| format!("cannot put a BPF filter at clsact priority {PRIORITY}; one of another kind or protocol there is in the way"))
}

/// Removes our filters, and the qdisc if it is ours and empty; false if neither was there.
pub fn detach(pins: &Pins, ifindex: u32) -> Result<bool> {
    let mut removed = false;
    let mut others = false;
    for hook in Hook::ALL {
        let there = filters(ifindex, hook).context("cannot list filters")?;
        removed |= remove_ours(&there, ifindex, hook)?;
        others |= there.iter().any(|filter| !is_ours(filter, hook));
    }
    let made = pins.made_clsact(ifindex);
    if made.exists() {
        if !others {
            let qdisc = RouteNetlinkMessage::DelQueueDiscipline(clsact(ifindex));
            absent(ask(&qdisc, NLM_F_ACK)).context("cannot remove the clsact qdisc")?;
        }
        fs::remove_dir(&made).with_context(|| format!("cannot remove {}", made.display()))?;
        removed = true;
    }
    Ok(removed)
}

/// Removes our filter at one hook; false if there is none. The qdisc stays.
pub fn detach_at(ifindex: u32, hook: Hook) -> Result<bool> {
    remove_ours(
        &filters(ifindex, hook).context("cannot list filters")?,
        ifindex,
        hook,
    )
}

fn remove_ours(there: &[TcFilter], ifindex: u32, hook: Hook) -> Result<bool> {
    if !there.iter().any(|filter| is_ours(filter, hook)) {
        return Ok(false);
    }
    let ours = RouteNetlinkMessage::DelTrafficFilter(our_filter(ifindex, hook));
    absent(ask(&ours, NLM_F_ACK)).context("cannot remove a filter")?;
    Ok(true)
}

/// Adds the qdisc, then notes it as ours: one left behind is better than a foreign one removed.
fn add_qdisc(pins: &Pins, ifindex: u32) -> Result<()> {
    let mut message = clsact(ifindex);
    message
        .attributes
        .push(TcAttribute::Kind("clsact".to_owned()));
    let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    match ask(&RouteNetlinkMessage::NewQueueDiscipline(message), flags) {
        Ok(_) => {
            let made = pins.made_clsact(ifindex);
            fs::create_dir_all(&made).with_context(|| format!("cannot make {}", made.display()))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let there = has_clsact(ifindex).context("cannot list qdiscs")?;
            ensure!(
                there,
                "an ingress qdisc is where clsact has to be, as a CNI's limit of bandwidth makes it; Linux 6.6 and later need no \
                 qdisc (--hooks auto), else remove it (tc qdisc del dev IFACE ingress)"
            );
            Ok(())
        }
        Err(error) => Err(error)
            .context("cannot add a clsact qdisc (does the kernel have CONFIG_NET_SCH_INGRESS?)"),
    }
}

/// Whether a filter is ours, of this process or an earlier one.
pub fn is_ours(filter: &TcFilter, hook: Hook) -> bool {
    let place = (filter.priority, filter.handle) == (PRIORITY, HANDLE);
    place && filter.kind == "bpf" && filter.name.as_deref() == Some(hook.program())
}

/// Accepts the removal of something that is gone already, or went with its interface.
fn absent<T>(removed: io::Result<T>) -> io::Result<()> {
    match removed {
        Err(error) if is_one_of(&error, &[libc::ENOENT, libc::ENODEV, libc::EINVAL]) => Ok(()),
        other => other.map(drop),
    }
}

/// A filter of an interface's clsact qdisc.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TcFilter {
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

/// Filters at a hook, in the order in which they run; none without a clsact qdisc.
pub fn filters(ifindex: u32, parent: Hook) -> io::Result<Vec<TcFilter>> {
    let request = RouteNetlinkMessage::GetTrafficFilter(message(ifindex, parent));
    Ok(ask(&request, NLM_F_DUMP)?
        .iter()
        .filter_map(TcFilter::from_answer)
        .collect())
}

/// Makes a direct-action BPF filter (`create`), or replaces the program of the existing one: at no
/// moment is there none, or two (`list_replace_rcu` in `net/sched/cls_bpf.c`).
fn put_filter(ifindex: u32, hook: Hook, program: BorrowedFd<'_>, create: bool) -> io::Result<()> {
    let mut message = our_filter(ifindex, hook);
    let options = [
        TcFilterBpfOption::ProgFd(program.as_raw_fd().cast_unsigned()),
        TcFilterBpfOption::ProgName(hook.program().to_owned()),
        TcFilterBpfOption::Flags(TcBpfFlags::DirectAction),
    ];
    message.attributes = vec![
        TcAttribute::Kind(TcFilterBpf::KIND.to_owned()),
        TcAttribute::Options(options.map(TcOption::Bpf).into()),
    ];
    let flags = if create { NLM_F_CREATE | NLM_F_EXCL } else { 0 };
    ask(
        &RouteNetlinkMessage::NewTrafficFilter(message),
        NLM_F_ACK | flags,
    )
    .map(drop)
}

/// Whether the interface has a clsact qdisc.
fn has_clsact(ifindex: u32) -> io::Result<bool> {
    // The kernel dumps the qdiscs of all interfaces, regardless of the request.
    let request = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
    let clsact = (ifindex.cast_signed(), "clsact");
    Ok(ask(&request, NLM_F_DUMP)?
        .iter()
        .any(|answer| qdisc(answer) == Some(clsact)))
}

/// The interface and the kind of a qdisc in a listing of the kernel.
pub(super) fn qdisc(answer: &RouteNetlinkMessage) -> Option<(i32, &str)> {
    let RouteNetlinkMessage::NewQueueDiscipline(message) = answer else {
        return None;
    };
    let kind = message
        .attributes
        .iter()
        .find_map(only!(TcAttribute::Kind(kind) => kind.as_str()));
    Some((message.header.index, kind.unwrap_or_default()))
}

impl TcFilter {
    /// Reads a filter in a listing of the kernel. The messages between filters only name a
    /// priority, and have no handle.
    pub(super) fn from_answer(answer: &RouteNetlinkMessage) -> Option<Self> {
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
                    TcOption::Bpf(TcFilterBpfOption::ProgName(name)) => {
                        filter.name = Some(name.clone());
                    }
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
    message.header.handle = TcHandle {
        major: u16::MAX,
        minor: 0,
    };
    message
}

impl From<Hook> for TcHandle {
    fn from(hook: Hook) -> Self {
        let minor = match hook {
            Hook::Ingress => Self::MIN_INGRESS,
            Hook::Egress => Self::MIN_EGRESS,
        };
        Self {
            major: u16::MAX,
            minor,
        }
    }
}

/// Names our filter.
fn our_filter(ifindex: u32, hook: Hook) -> TcMessage {
    let mut message = message(ifindex, hook);
    message.header.handle = HANDLE.into();
    message.header.info = u32::from(PRIORITY) << 16 | u32::from(ETH_P_ALL.to_be());
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
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_ours_by_priority_handle_kind_and_name_with_every_program() {
        let mut filter = TcFilter {
            priority: PRIORITY,
            handle: HANDLE,
            kind: "bpf".to_owned(),
            name: Some(Hook::Ingress.program().to_owned()),
            program: Some(7),
        };
        assert!(is_ours(&filter, Hook::Ingress));
        assert!(!is_ours(&filter, Hook::Egress));
        filter.priority = 2;
        assert!(!is_ours(&filter, Hook::Ingress));
    }
}
