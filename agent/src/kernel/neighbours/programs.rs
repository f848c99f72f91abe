//! The possible use of the carriers by the programs of this kernel, by their ids.

use super::fields::Layout;
use super::flow;
use super::insn::Insn;
use super::shapes::{Shape, Shapes};
use super::uses::Use;
use crate::kernel::datapath::programs::{self, MapSize};
use aya::maps::{MapInfo, MapType};
use aya_obj::generated::bpf_prog_type;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// A program and what it may do with the carriers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its id in this kernel; given to another program only after some two billion more.
    pub id: u32,
    /// Cut to 15 characters by the kernel; empty if its maker gave none.
    pub name: String,
    /// Its own use, without the programs that it tail-calls.
    pub uses: Use,
    /// Why it could not be read; then `uses` is [`Use::UNKNOWN`].
    pub unreadable: Option<String>,
}

/// Programs that were listed, as long as they exist.
#[derive(Debug, Default)]
pub struct Programs {
    known: BTreeMap<u32, Known>,
    /// Entries of maps of programs to tail-call; none for maps of other types.
    arrays: BTreeMap<u32, Option<u32>>,
    shapes: Shapes,
    read: usize,
}

#[derive(Debug, Default)]
struct Known {
    kind: u32,
    read: Option<Read>,
}

#[derive(Debug)]
struct Read {
    program: Program,
    /// Ids of the maps that it uses.
    maps: Vec<u32>,
    /// None if the instructions cannot be read.
    shape: Option<Shape>,
}

impl Program {
    /// A program that cannot be read.
    pub(super) fn unreadable(id: u32, name: String, cause: &str) -> Self {
        Self {
            id,
            name,
            uses: Use::UNKNOWN,
            unreadable: Some(cause.to_owned()),
        }
    }
}

impl Programs {
    /// Lists the programs of the kernel.
    pub fn refresh(&mut self) -> io::Result<()> {
        let ids: BTreeSet<u32> = programs::ids()?.into_iter().collect();
        let before = self.known.len();
        self.known.retain(|id, _| ids.contains(id));
        // Reading may have failed for want of descriptors or memory: try it again.
        for known in self.known.values_mut() {
            known.read.take_if(|read| read.program.unreadable.is_some());
        }
        if before != self.known.len() {
            // Maps go with the programs that use them.
            self.arrays.clear();
            let read = self.known.values().filter_map(|known| known.read.as_ref());
            self.shapes.keep(&read.filter_map(|read| read.shape).collect());
        }
        for id in ids {
            if self.known.contains_key(&id) {
                continue;
            }
            match programs::kind(id) {
                Ok(kind) => self.known.insert(id, Known { kind, read: None }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    /// Ids and types (`bpf_prog_type`) of all programs.
    pub fn kinds(&self) -> impl Iterator<Item = (u32, u32)> {
        self.known.iter().map(|(id, known)| (*id, known.kind))
    }

    /// Whether a program was there at the last [`Programs::refresh`].
    #[must_use]
    pub fn has(&self, id: u32) -> bool {
        self.known.contains_key(&id)
    }

    /// How many programs were analysed.
    #[must_use]
    pub const fn read_so_far(&self) -> usize {
        self.read
    }

    /// A program with what it uses, analysed the first time. None if it is gone.
    pub fn read(&mut self, id: u32, layout: &Layout) -> Option<&Program> {
        let known = match self.known.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            // The program was loaded during a survey.
            Entry::Vacant(place) => place.insert(Known {
                kind: programs::kind(id).ok()?,
                read: None,
            }),
        };
        if known.read.is_none() {
            match read(id, layout, &mut self.shapes) {
                Ok(read) => {
                    self.read += 1;
                    known.read = Some(read);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                Err(error) => {
                    let program = Program::unreadable(id, String::new(), &error.to_string());
                    known.read = Some(Read {
                        program,
                        maps: vec![],
                        shape: None,
                    });
                }
            }
        }
        known.read.as_ref().map(|read| &read.program)
    }

    /// Ids of the programs that a program may tail-call, through maps that it was loaded with.
    pub fn tail_calls(&mut self, id: u32) -> anyhow::Result<Vec<u32>> {
        let Some(read) = self.known.get(&id).and_then(|known| known.read.as_ref()) else {
            return Ok(vec![]);
        };
        let mut reached = Vec::new();
        for map in &read.maps {
            let entries = match self.arrays.entry(*map) {
                Entry::Occupied(entries) => *entries.get(),
                Entry::Vacant(place) => {
                    let map = MapInfo::from_id(*map)?;
                    let is_array = map.map_type().is_ok_and(|kind| kind == MapType::ProgramArray);
                    *place.insert(is_array.then_some(map.max_entries()))
                }
            };
            if let Some(entries) = entries {
                reached.extend(programs::tail_calls(&programs::open_map(*map)?, entries)?);
            }
        }
        Ok(reached)
    }
}

fn read(id: u32, layout: &Layout, shapes: &mut Shapes) -> io::Result<Read> {
    let shown = programs::information(&programs::open(id)?)?;
    let (name, maps) = (shown.name, shown.maps);
    let Some(octets) = shown.instructions else {
        let program = Program::unreadable(id, name, "the kernel withholds its instructions");
        return Ok(Read {
            program,
            maps,
            shape: None,
        });
    };
    let (shape, uses) = shapes.analyse(&Insn::decode(&octets), entry(shown.kind), layout, &sizes(&maps));
    let program = Program {
        id,
        name,
        uses,
        unreadable: None,
    };
    let shape = Some(shape);
    Ok(Read { program, maps, shape })
}

/// Sizes of the maps, without those that are gone.
fn sizes(maps: &[u32]) -> BTreeMap<u32, MapSize> {
    let size = |id: &u32| {
        let map = MapInfo::from_id(*id).ok()?;
        let (key, value) = (map.key_size(), map.value_size());
        Some((*id, MapSize { key, value }))
    };
    maps.iter().filter_map(size).collect()
}

/// The entry of a program of this type. The context of these types is an `sk_buff`; all others may lead to one.
fn entry(kind: u32) -> flow::Entry {
    use bpf_prog_type as t;
    let of_packets = [
        t::BPF_PROG_TYPE_SOCKET_FILTER,
        t::BPF_PROG_TYPE_SCHED_CLS,
        t::BPF_PROG_TYPE_SCHED_ACT,
        t::BPF_PROG_TYPE_CGROUP_SKB,
        t::BPF_PROG_TYPE_LWT_IN,
        t::BPF_PROG_TYPE_LWT_OUT,
        t::BPF_PROG_TYPE_LWT_XMIT,
        t::BPF_PROG_TYPE_LWT_SEG6LOCAL,
        t::BPF_PROG_TYPE_SK_SKB,
    ];
    if of_packets.iter().any(|of_packets| *of_packets as u32 == kind) {
        flow::Entry::Packet
    } else {
        flow::Entry::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::datapath::{Datapath, Hooks};
    use crate::kernel::neighbours::flow::attempt;
    use std::path::PathBuf;
    use std::process::{Command, ExitStatus};
    use std::time::{Duration, Instant};

    #[test]
    #[ignore = "needs root: reads the programs of the machine, mounts a bpffs"]
    fn every_program_of_this_machine_is_analysed_without_giving_up() {
        let layout = Layout::of_kernel().unwrap();
        let dir = std::env::temp_dir().join(format!("epguard-programs-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let _ours = Bpffs(
            Command::new("mount")
                .args(["-t", "bpf", "bpf"])
                .arg(&dir)
                .status(),
            dir.clone(),
        );
        let _loaded = Datapath::load(&dir.join("epguard"), Hooks::Auto).expect("run `cargo xtask build`");
        let (mut instructions, mut taken, mut count) = (0, Duration::ZERO, 0);
        for id in programs::ids().unwrap() {
            let Ok(information) = programs::open(id).and_then(|program| programs::information(&program))
            else {
                continue;
            };
            let decoded = Insn::decode(&information.instructions.unwrap_or_default());
            let begun = Instant::now();
            let uses = attempt(
                &decoded,
                entry(information.kind),
                &layout,
                &sizes(&information.maps),
            );
            taken += begun.elapsed();
            (instructions, count) = (instructions + decoded.len(), count + 1);
            let (name, kind) = (&information.name, information.kind);
            println!(
                "{id} {name} type {kind}, {} instructions: {uses:x?}",
                decoded.len()
            );
            assert!(uses.is_some(), "gave up at {id} {name}");
        }
        println!("{count} programs, {instructions} instructions, {taken:?}");
        assert!(instructions > 1000, "epguard's own are there");
    }

    struct Bpffs(io::Result<ExitStatus>, PathBuf);

    impl Drop for Bpffs {
        fn drop(&mut self) {
            assert!(
                self.0.as_ref().is_ok_and(ExitStatus::success),
                "cannot mount a bpffs"
            );
            let _ = Command::new("umount").arg("-l").arg(&self.1).status();
            let _ = std::fs::remove_dir(&self.1);
        }
    }
}
