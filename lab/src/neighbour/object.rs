//! The neighbours' eBPF object, and its programs at their hooks.

use nix::libc;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aya::programs::tc::{
    NlOptions, SchedClassifierLink, TcAttachOptions, TcError, qdisc_add_clsact,
};
use aya::programs::{LinkOrder, Program, ProgramError, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader};

use crate::wait;

/// The object that `cargo xtask build` made; empty if this binary was built without it.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/epguard-neighbour"));

/// The programs of a CNI beside epguard.
pub(super) const PROGRAMS: [&str; 7] = [
    "to_container",
    "from_container",
    "from_container_routed",
    "scramble",
    "before",
    "after",
    "from_overlay",
];

/// Their maps by the names of their pins.
pub(super) const MAPS: [(&str, &str); 9] = [
    ("FORBIDDEN", "FORBIDDEN"),
    ("COUNTS", "COUNTS"),
    ("PEERS", "PEERS"),
    ("NOTED", "NOTED"),
    ("CHANGED", "CHANGED"),
    ("CT_TCP4", "CT_TCP4"),
    ("CT_ANY4", "CT_ANY4"),
    ("CT_TCP6", "CT_TCP6"),
    ("CT_ANY6", "CT_ANY6"),
];

/// Maps of a load balancer, at sockets and per packet, by the names of their pins. Those that
/// Cilium has, too, have its names, where other programs look for them.
pub(crate) const BALANCER_MAPS: [(&str, &str); 13] = [
    ("NAMESPACES", "NAMESPACES"),
    ("SOCKET_SERVICES", "SOCKET_SERVICES"),
    ("SOCKET_SLOTS", "SOCKET_SLOTS"),
    ("SOCKET_BACKENDS", "SOCKET_BACKENDS"),
    ("SOCKET_AFFINITY", "SOCKET_AFFINITY"),
    ("REVERSE4", "cilium_lb4_reverse_sk"),
    ("REVERSE6", "cilium_lb6_reverse_sk"),
    ("CT_TCP4", "cilium_ct4_global"),
    ("CT_ANY4", "cilium_ct_any4_global"),
    ("CT_TCP6", "cilium_ct6_global"),
    ("CT_ANY6", "cilium_ct_any6_global"),
    ("NAT4", "cilium_lb4_reverse_nat"),
    ("NAT6", "cilium_lb6_reverse_nat"),
];

/// How often the lab tries to load a program while signals end the kernel's check. libbpf tries as
/// often.
const LOADS: usize = 5;

/// The priority of epguard's filters: among those of one priority the youngest runs first.
const OURS: u16 = 1;

/// Loads the object over these maps, each pinned in the folder under its second name. Maps that are
/// not pinned yet are made.
pub(crate) fn load(pins: &Path, maps: &[(&str, &str)]) -> Result<Ebpf> {
    ensure!(
        !OBJECT.is_empty(),
        "this lab was built without the neighbours' object: run `cargo xtask build`"
    );
    fs::create_dir_all(pins).with_context(|| format!("cannot make {}", pins.display()))?;
    let mut loader = EbpfLoader::new();
    for (name, pin) in maps {
        loader.map_pin_path(name, pins.join(pin));
    }
    loader
        .load(OBJECT)
        .context("cannot load the neighbours' object")
}

/// Loads a program, and tries it up to [`LOADS`] times: the kernel ends its check with EAGAIN when a
/// signal comes for the thread (`do_check` in kernel/bpf/verifier.c).
pub(crate) fn load_program(
    mut load: impl FnMut() -> Result<(), ProgramError>,
) -> Result<(), ProgramError> {
    for _ in 1..LOADS {
        match load() {
            Err(ProgramError::LoadError { io_error, .. })
                if io_error.kind() == ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
    load()
}

/// A program of the object.
pub(crate) fn program<'a, P>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut P>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    let program = object.program_mut(name);
    let program =
        program.with_context(|| format!("the neighbours' object has no program {name}"))?;
    Ok(program.try_into()?)
}

/// A hook of an interface, and the place there.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) hook: TcAttachType,
    /// Before all other programs, and not behind them.
    pub(super) first: bool,
}

impl At {
    pub(super) fn first(hook: TcAttachType) -> Self {
        Self { hook, first: true }
    }

    pub(super) fn last(hook: TcAttachType) -> Self {
        Self { hook, first: false }
    }
}

/// Programs, loaded over the maps under the pin folder.
#[derive(Debug)]
pub(super) struct BpfObject(Ebpf, &'static [&'static str]);

impl BpfObject {
    /// Loads the programs; the maps are made if they are not pinned yet.
    pub(super) fn load(
        pins: &Path,
        maps: &[(&str, &str)],
        programs: &'static [&'static str],
    ) -> Result<Self> {
        let mut object = Self(load(pins, maps)?, programs);
        for name in programs {
            let program = object.program(name)?;
            load_program(|| program.load())
                .with_context(|| format!("cannot load the neighbour's program {name}"))?;
        }
        Ok(object)
    }

    /// Attaches a program to an interface of the calling thread's network namespace: as a filter of
    /// clsact, or with TCX.
    pub(super) fn attach(
        &mut self,
        name: &str,
        interface: &str,
        At { hook, first }: At,
        clsact: bool,
    ) -> Result<SchedClassifierLink> {
        let options = match (clsact, first) {
            (true, _) => {
                add_clsact(interface)?;
                TcAttachOptions::Netlink(NlOptions {
                    priority: if first { OURS } else { OURS + 1 },
                    ..NlOptions::default()
                })
            }
            (false, true) => TcAttachOptions::TcxOrder(LinkOrder::first()),
            (false, false) => TcAttachOptions::TcxOrder(LinkOrder::last()),
        };
        let program = self.program(name)?;
        let attached = program.attach_with_options(interface, hook, options);
        let id = attached
            .with_context(|| format!("cannot attach the neighbour's {name} to {interface}"))?;
        Ok(program.take_link(id)?)
    }

    /// Replaces the program of a link by this object's: at no moment has the link none, or two.
    pub(super) fn take_over(
        &mut self,
        name: &str,
        link: SchedClassifierLink,
    ) -> Result<SchedClassifierLink> {
        let program = self.program(name)?;
        let id = program.attach_to_link(link)?;
        Ok(program.take_link(id)?)
    }

    /// Waits until no program of this object is at the TCX hooks of an interface: a process that
    /// this one forks in another thread holds the links as well, until it executes its program.
    pub(super) fn await_detached(&self, interface: &str) -> Result<()> {
        // Other programs are in the same object, and not loaded.
        let programs = self.1.iter().filter_map(|name| self.0.program(name));
        let own: Vec<u32> = programs
            .map(|program| Ok(program.info()?.id()))
            .collect::<Result<_>>()?;
        wait::until(Duration::from_millis(1), || {
            for place in [TcAttachType::Ingress, TcAttachType::Egress] {
                // An interface that is gone has no programs, nor has a kernel without TCX.
                let Ok((_, attached)) = SchedClassifier::query_tcx(interface, place) else {
                    continue;
                };
                if attached.iter().any(|program| own.contains(&program.id())) {
                    return Ok(Some(format!("{interface} has the neighbour's programs")));
                }
            }
            Ok(None)
        })
    }

    fn program(&mut self, name: &str) -> Result<&mut SchedClassifier> {
        program(&mut self.0, name)
    }
}

/// Adds the clsact qdisc unless it exists.
fn add_clsact(interface: &str) -> Result<()> {
    match qdisc_add_clsact(interface) {
        Err(TcError::NetlinkError(error)) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        added => added.with_context(|| format!("cannot add a clsact qdisc to {interface}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aya_obj::VerifierLog;
    use std::io;

    #[test]
    fn a_program_is_loaded_again_if_a_signal_ended_its_check_and_for_no_other_error() {
        for (errno, failures, loads) in [
            (libc::EAGAIN, 2, 3),
            (libc::EAGAIN, LOADS, LOADS),
            (libc::EACCES, 1, 1),
        ] {
            let mut loaded = 0;
            let result = load_program(|| {
                loaded += 1;
                if loaded > failures {
                    return Ok(());
                }
                Err(ProgramError::LoadError {
                    io_error: io::Error::from_raw_os_error(errno),
                    verifier_log: VerifierLog::new(String::new()),
                })
            });
            assert_eq!(result.is_ok(), loads > failures, "{errno}");
            assert_eq!(loaded, loads, "{errno}");
        }
    }
}
