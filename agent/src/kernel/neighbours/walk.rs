//! One survey: all places where something can meet packets of this network namespace.

use super::found::{Found, Place};
use super::kernel;
use super::programs::Program;
use super::scanner::Scanner;
use super::uses::Use;
use crate::kernel::datapath::failure::is_one_of;
use crate::kernel::datapath::netlink::{self, Filter, Qdisc};
use crate::kernel::datapath::{Hook, bpf};
use anyhow::{Context as _, Result};
use aya_obj::generated::bpf_attach_type::{
    BPF_NETKIT_PEER, BPF_NETKIT_PRIMARY, BPF_TCX_EGRESS, BPF_TCX_INGRESS,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// A survey under way.
pub struct Walk<'a> {
    /// Lists and analyses the programs.
    pub scanner: &'a mut Scanner,
    /// Ids of programs to leave out.
    pub own: &'a BTreeSet<u32>,
    /// Names of interfaces, by their number.
    pub names: BTreeMap<u32, String>,
    /// Tail-called programs that were found, by their id.
    pub called: BTreeMap<u32, Option<Found>>,
    /// Everything else that was found.
    pub found: Vec<Found>,
    /// Whether a program ended during the survey.
    pub ended: bool,
}

/// Place of a program that is at no interface.
const ANYWHERE: (Option<u32>, Place) = (None, Place::Anywhere);

/// The hooks of a clsact qdisc. An ingress qdisc has the first.
const CLSACT: [(Hook, &str); 2] = [(Hook::Ingress, "clsact ingress"), (Hook::Egress, "clsact egress")];

impl Walk<'_> {
    /// Finds programs that may meet a packet wherever they are attached.
    pub fn anywhere(&mut self) {
        if self.scanner.blind.is_some() {
            let cause = "programs that cannot be listed (CAP_SYS_ADMIN)".to_owned();
            self.add(cause, None, Use::UNKNOWN, ANYWHERE, true);
        }
        let kinds: Vec<(u32, &str)> = (self.scanner.programs.kinds())
            .filter(|(id, _)| !self.own.contains(id))
            .filter_map(|(id, kind)| Some((id, kernel::name_of(kind)?)))
            .collect();
        for (id, kind) in kinds {
            let Some(program) = self.scanner.programs.read(id, &self.scanner.layout).cloned() else {
                continue;
            };
            let called = self.tail_calls(&program);
            if !program.uses.is_none() || !called.is_none() {
                let uses = program.uses;
                self.add(kind.to_owned(), Some(program), uses, ANYWHERE, true);
            }
        }
    }

    /// Returns everything found since the last call, tail-called programs included.
    pub(super) fn take(&mut self) -> Vec<Found> {
        let called = std::mem::take(&mut self.called);
        self.found.extend(called.into_values().flatten());
        std::mem::take(&mut self.found)
    }

    /// Finds TCX and netkit programs.
    pub fn hooks(&mut self) -> Result<()> {
        let hooks = [
            (BPF_TCX_INGRESS, "tcx ingress", Place::Tcx { ingress: true }),
            (BPF_TCX_EGRESS, "tcx egress", Place::Tcx { ingress: false }),
            (BPF_NETKIT_PRIMARY, "netkit primary", Place::Netkit),
            (BPF_NETKIT_PEER, "netkit peer", Place::Netkit),
        ];
        for ifindex in self.names.keys().copied().collect::<Vec<_>>() {
            for (attach_type, label, at) in hooks {
                if at == Place::Netkit && !self.scanner.has_netkit {
                    continue;
                }
                let ids = match bpf::tcx_programs(ifindex, attach_type) {
                    Err(error) if is_one_of(&error, &[libc::EINVAL]) => {
                        self.scanner.has_netkit &= at != Place::Netkit;
                        continue;
                    }
                    // No netkit device, the peer of one, or gone.
                    Err(error) if is_one_of(&error, &[libc::ENXIO, libc::EACCES, libc::ENODEV]) => continue,
                    ids => ids.context("cannot list the programs at an interface")?,
                };
                let after = ids.iter().rposition(|id| self.own.contains(id));
                for (position, id) in ids.into_iter().enumerate() {
                    if self.own.contains(&id) {
                        continue;
                    }
                    let program = self.program(id);
                    let mut uses = program.uses;
                    if at != Place::Netkit {
                        // The kernel copies tc_classid when the program passes a packet.
                        uses.tc_index.sets |= uses.tc_classid.sets;
                    }
                    let place = self.place(ifindex, label);
                    let after_ours = after.is_none_or(|after| position > after);
                    self.add(place, Some(program), uses, (Some(ifindex), at), after_ours);
                }
            }
        }
        Ok(())
    }

    /// Finds queueing disciplines and their filters.
    pub fn qdiscs(&mut self) -> Result<()> {
        for qdisc in netlink::qdiscs().context("cannot list queueing disciplines")? {
            let uses = kernel::qdisc(&qdisc.kind);
            if !uses.is_none() {
                let place = self.place(qdisc.ifindex, &format!("qdisc {}", qdisc.kind));
                self.add(place, None, uses, (Some(qdisc.ifindex), Place::Qdisc), true);
            }
            let hooks = match qdisc.kind.as_str() {
                "clsact" => &CLSACT[..],
                "ingress" => &CLSACT[..1],
                _ => {
                    let filters = netlink::filters(qdisc.ifindex, qdisc.handle);
                    self.filters(&qdisc, "filter", Place::Filter, filters)?;
                    self.class_filters(&qdisc)?;
                    continue;
                }
            };
            for (hook, label) in hooks {
                let ingress = *hook == Hook::Ingress;
                let filters = netlink::filters(qdisc.ifindex, *hook);
                self.filters(&qdisc, label, Place::Clsact { ingress }, filters)?;
            }
        }
        Ok(())
    }

    /// Finds the filters of a qdisc's classes. One that the kernel made by itself, as `mq` is made of, has none of its
    /// own.
    fn class_filters(&mut self, qdisc: &Qdisc) -> Result<()> {
        if qdisc.handle == 0 || !kernel::is_classful(&qdisc.kind) {
            return Ok(());
        }
        // The interface may be gone.
        let classes = netlink::classes(qdisc.ifindex).unwrap_or_default().into_iter();
        for class in classes.filter(|class| class >> 16 == qdisc.handle >> 16) {
            let filters = netlink::filters(qdisc.ifindex, class);
            self.filters(qdisc, "class filter", Place::Filter, filters)?;
        }
        Ok(())
    }

    fn filters(
        &mut self,
        qdisc: &Qdisc,
        label: &str,
        at: Place,
        filters: io::Result<Vec<Filter>>,
    ) -> Result<()> {
        /// The interface or qdisc is gone, or the qdisc takes no filters.
        const GONE: [i32; 4] = [libc::ENODEV, libc::EINVAL, libc::ENOENT, libc::EOPNOTSUPP];
        let filters = match filters {
            Err(error) if is_one_of(&error, &GONE) => return Ok(()),
            filters => filters.context("cannot list filters")?,
        };
        let own = self.own;
        let is_own = |filter: &Filter| filter.program.is_some_and(|id| own.contains(&id));
        let after = filters.iter().rposition(is_own);
        for (position, filter) in filters.iter().enumerate() {
            if is_own(filter) || kernel::is_table(filter) {
                continue;
            }
            // A BPF filter without an id is a classic one, which reads packets only.
            let program = filter.program.map(|id| self.program(id));
            let own_uses = program.as_ref().map_or(Use::NONE, |program| program.uses);
            let uses = kernel::filter(filter, own_uses, matches!(at, Place::Clsact { .. }));
            let place = self.place(qdisc.ifindex, &format!("{label} {}", filter.kind));
            let after_ours = after.is_none_or(|after| position > after);
            self.add(place, program, uses, (Some(qdisc.ifindex), at), after_ours);
        }
        Ok(())
    }

    fn add(
        &mut self,
        place: String,
        program: Option<Program>,
        uses: Use,
        (ifindex, at): (Option<u32>, Place),
        after_ours: bool,
    ) {
        let called = program
            .as_ref()
            .map_or(Use::NONE, |program| self.tail_calls(program));
        self.found.push(Found {
            place,
            program,
            uses,
            ifindex,
            at,
            after_ours,
            with_tail_calls: uses | called,
        });
    }

    /// A program at a hook. One that ends meanwhile counts as unreadable.
    fn program(&mut self, id: u32) -> Program {
        let read = self.scanner.programs.read(id, &self.scanner.layout).cloned();
        self.ended |= read.is_none();
        read.unwrap_or_else(|| Program::unreadable(id, String::new(), "it ended meanwhile"))
    }

    /// Finds all programs that a program may tail-call, and those that they call in turn. Returns what they use together.
    fn tail_calls(&mut self, first: &Program) -> Use {
        let mut reached = Use::NONE;
        let mut seen = BTreeSet::from([first.id]);
        let mut callers = vec![(first.id, first.name.clone())];
        while let Some((caller, name)) = callers.pop() {
            let place = || format!("tail call of {name} ({caller})");
            let Ok(ids) = self.scanner.programs.tail_calls(caller) else {
                self.ended = true;
                let unknown = called(place(), None, Use::UNKNOWN);
                self.called.entry(caller).or_insert(Some(unknown));
                return Use::UNKNOWN;
            };
            for id in ids {
                if !seen.insert(id) {
                    continue;
                }
                let program = self.program(id);
                reached |= program.uses;
                callers.push((id, program.name.clone()));
                let is_own = self.own.contains(&id);
                self.called.entry(id).or_insert_with(|| {
                    let uses = program.uses;
                    (!is_own).then(|| called(place(), Some(program), uses))
                });
            }
        }
        reached
    }

    fn place(&self, ifindex: u32, what: &str) -> String {
        match self.names.get(&ifindex) {
            Some(name) => format!("{name} {what}"),
            None => format!("interface {ifindex} {what}"),
        }
    }
}

fn called(place: String, program: Option<Program>, uses: Use) -> Found {
    Found {
        place,
        program,
        uses,
        ifindex: None,
        at: Place::TailCall,
        after_ours: true,
        with_tail_calls: uses,
    }
}
