//! Cilium's maps, found by their pins and handed to the programs as inner maps of ours: so they may come and go while the programs
//! run.
//!
//! After a change of their size or flags Cilium pins new maps, and its endpoints use the ones before for some seconds (17 s seen). So
//! the programs look both up.

use super::datapath::object::explain;
use super::datapath::{bpf, unpin};
use super::maps;
use anyhow::{Context as _, Result, bail};
use aya::maps::MapData;
use aya_obj::generated::bpf_map_type::{BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH};
use aya_obj::generated::{BPF_F_NO_PREALLOC, bpf_map_type};
use nix::libc;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the map before the pinned one is still looked up.
const KEEP_OLD: Duration = Duration::from_mins(1);

/// A map of Cilium's, and its shape in each release from 1.14 to 1.21; docs/cilium.md cites where.
#[derive(Debug)]
struct Shape {
    pin: &'static str,
    /// Our map that has it as an inner map, and the first of its two places there.
    outer: &'static str,
    place: u32,
    kind: bpf_map_type,
    key: u32,
    value: u32,
}

const fn lru(pin: &'static str, outer: &'static str, place: u32, key: u32, value: u32) -> Shape {
    Shape { pin, outer, place, kind: BPF_MAP_TYPE_LRU_HASH, key, value }
}

const SHAPES: [Shape; 8] = [
    lru("cilium_ct4_global", "CILIUM_CT4", 0, 14, 56),
    lru("cilium_ct_any4_global", "CILIUM_CT4", 2, 14, 56),
    lru("cilium_ct6_global", "CILIUM_CT6", 0, 38, 56),
    lru("cilium_ct_any6_global", "CILIUM_CT6", 2, 38, 56),
    Shape { kind: BPF_MAP_TYPE_HASH, ..lru("cilium_lb4_reverse_nat", "CILIUM_NAT4", 0, 2, 6) },
    Shape { kind: BPF_MAP_TYPE_HASH, ..lru("cilium_lb6_reverse_nat", "CILIUM_NAT6", 0, 2, 18) },
    lru("cilium_lb4_reverse_sk", "CILIUM_SK4", 0, 16, 8),
    lru("cilium_lb6_reverse_sk", "CILIUM_SK6", 0, 32, 20),
];

/// The maps that the programs look up now.
#[derive(Debug)]
pub struct Cilium {
    directory: PathBuf,
    pin_dir: PathBuf,
    known: [Known; SHAPES.len()],
}

/// What is known of one of Cilium's maps.
#[derive(Debug, Default)]
struct Known {
    /// The map at the first place, and its id.
    map: Option<(MapData, u32)>,
    /// Since when it is not pinned, though it may still be in use.
    unpinned: Option<Instant>,
    /// Since when the second place has the map before it.
    replaced: Option<Instant>,
    problem: Option<String>,
}

/// Makes our outer maps for the maps that Cilium has pinned now, or will by default: the kernel takes only inner maps of the flags that
/// the outer one was made for. Those of an earlier process are left to its programs.
pub fn prepare(directory: &Path, pin_dir: &Path) -> Result<()> {
    for first in SHAPES.iter().filter(|shape| shape.place == 0) {
        let outer = first.outer;
        let path = maps::directory(pin_dir).join(outer);
        unpin(&path)?;
        let own: Vec<_> = SHAPES.iter().filter(|shape| shape.outer == outer).collect();
        let mut opened = own.iter().filter_map(|shape| shape.open(directory).ok().flatten());
        let inner = opened.next().map_or_else(|| first.sample(), |(pinned, _)| Ok(pinned))?;
        let made = bpf::make_map_of_maps(outer, u32::try_from(2 * own.len())?, inner.fd().as_fd());
        bpf::pin(made.with_context(|| format!("cannot make {outer}"))?.as_fd(), &path)?;
    }
    Ok(())
}

impl Cilium {
    /// Looks up none yet. `directory`: where Cilium pins its maps.
    pub fn new(directory: &Path, pin_dir: &Path) -> Self {
        Self { directory: directory.to_owned(), pin_dir: pin_dir.to_owned(), known: Default::default() }
    }

    /// Hands maps that Cilium has pinned since the last call to the programs, and takes back those that it no longer uses. True if
    /// the programs look any up.
    ///
    /// Errors: Cilium's maps have other flags than those that the outer maps were made for; the next process makes others.
    pub fn follow(&mut self, now: Instant) -> Result<bool> {
        for (shape, known) in SHAPES.iter().zip(&mut self.known) {
            known.problem = None;
            match shape.open(&self.directory) {
                Ok(Some((map, id))) => {
                    if known.map.as_ref().is_none_or(|(_, known)| *known != id) {
                        hand_over(&self.pin_dir, shape, known, (map, id), now)?;
                    }
                    known.unpinned = None;
                }
                Ok(None) if known.map.is_some() => {
                    known.unpinned.get_or_insert(now);
                }
                Ok(None) => {}
                Err(error) => known.problem = Some(format!("{error:#}")),
            }
            known.forget(shape, &self.pin_dir, now)?;
        }
        Ok(self.known.iter().any(|known| known.map.is_some() || known.replaced.is_some()))
    }

    /// Names of the maps that are looked up.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let known = SHAPES.iter().zip(&self.known);
        known.filter_map(|(shape, known)| known.map.as_ref().map(|_| shape.pin))
    }

    /// Why a map of Cilium's is not looked up.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.known.iter().filter_map(|known| known.problem.as_deref())
    }
}

impl Known {
    /// Takes maps from the programs that Cilium's have long stopped to use.
    fn forget(&mut self, shape: &Shape, pin_dir: &Path, now: Instant) -> Result<()> {
        let is_over =
            |since: Option<Instant>| since.is_some_and(|since| now.duration_since(since) >= KEEP_OLD);
        // Where a map of unknown shape is pinned, no map shows what Cilium has written since.
        let unknown = self.problem.is_some();
        if is_over(self.replaced) || unknown && self.replaced.is_some() {
            bpf::set_inner_map(open_outer(pin_dir, shape)?.as_fd(), shape.place + 1, None)?;
            self.replaced = None;
        }
        if is_over(self.unpinned) || unknown && self.map.is_some() {
            bpf::set_inner_map(open_outer(pin_dir, shape)?.as_fd(), shape.place, None)?;
            (self.map, self.unpinned) = (None, None);
        }
        Ok(())
    }
}

fn hand_over(
    pin_dir: &Path,
    shape: &Shape,
    known: &mut Known,
    (map, id): (MapData, u32),
    now: Instant,
) -> Result<()> {
    let outer = open_outer(pin_dir, shape)?;
    if let Some((before, _)) = known.map.take() {
        bpf::set_inner_map(outer.as_fd(), shape.place + 1, Some(before.fd().as_fd()))?;
        known.replaced = Some(now);
    }
    match bpf::set_inner_map(outer.as_fd(), shape.place, Some(map.fd().as_fd())) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => bail!(
            "Cilium's {} has other flags than before, and epguard has to start again to read it",
            shape.pin
        ),
        written => written.with_context(|| format!("cannot write {}", shape.outer))?,
    }
    known.map = Some((map, id));
    tracing::info!(map = shape.pin, id, "connections are looked up in Cilium's map");
    Ok(())
}

fn open_outer(pin_dir: &Path, shape: &Shape) -> Result<OwnedFd> {
    let path = maps::directory(pin_dir).join(shape.outer);
    bpf::open(&path)?.with_context(|| format!("{} is not pinned", path.display()))
}

impl Shape {
    /// A map as Cilium makes it by default: like Cilium's it has no BTF, which kernels before 6.2 compare.
    fn sample(&self) -> Result<MapData> {
        let flags = match self.kind {
            BPF_MAP_TYPE_HASH => BPF_F_NO_PREALLOC,
            _ => 0,
        };
        let map = aya_obj::Map::new_from_params(self.kind as u32, self.key, self.value, 1, flags);
        MapData::create(map, "sample", None).map_err(|error| explain(error, self.outer))
    }

    /// The map and its id; `None` if Cilium has not pinned it.
    ///
    /// Errors: it has another shape.
    fn open(&self, directory: &Path) -> Result<Option<(MapData, u32)>> {
        let path = directory.join(self.pin);
        let Some(map) = bpf::open(&path)? else { return Ok(None) };
        // What is pinned there may be a program or a link.
        let map = MapData::from_fd(map).with_context(|| format!("cannot read {}", path.display()))?;
        let info = map.info().with_context(|| format!("cannot read {}", path.display()))?;
        let kind = info.map_type().ok().map(|kind| kind as u32);
        if (kind, info.key_size(), info.value_size()) != (Some(self.kind as u32), self.key, self.value) {
            bail!(
                "{} has another shape than in Cilium 1.14 to 1.21, so what Cilium translates is not judged: update epguard",
                path.display()
            );
        }
        Ok(Some((map, info.id())))
    }
}
