//! Cilium's maps, found by their pins and handed to the programs as inner maps of ours: so they may
//! come and go while the programs run.
//!
//! After a change of their size or flags Cilium pins new maps, and its endpoints use the ones
//! before for some seconds (23 s seen). So the programs look both up. The kernel takes only inner
//! maps of the flags that an outer map was made for: there is one for maps with the flag that
//! Cilium has an option for, and one for maps without.

use super::datapath::object::explain;
use super::datapath::{bpf, unpin};
use super::maps;
use anyhow::{Context as _, Result, bail};
use aya::maps::MapData;
use aya_obj::generated::bpf_map_type::{BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH};
use aya_obj::generated::{BPF_F_NO_COMMON_LRU, BPF_F_NO_PREALLOC, bpf_map_type};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the map before the pinned one is still looked up.
const KEEP_OLD: Duration = Duration::from_mins(1);

/// A map of Cilium's, and its shape in each release from 1.14 to 1.21; docs/cilium.md cites where.
#[derive(Debug)]
struct Shape {
    pin: &'static str,
    /// Our maps of which one has it as an inner map, and the first of its two places there.
    outers: [Outer; 2],
    place: u32,
    kind: bpf_map_type,
    key: u32,
    value: u32,
}

/// A map of ours, whose inner maps have these flags.
#[derive(Debug, Clone, Copy)]
struct Outer {
    name: &'static str,
    flags: u32,
}

const fn lru(
    pin: &'static str,
    names: [&'static str; 2],
    place: u32,
    key: u32,
    value: u32,
) -> Shape {
    let outers = [
        Outer {
            name: names[0],
            flags: 0,
        },
        Outer {
            name: names[1],
            flags: BPF_F_NO_COMMON_LRU,
        },
    ];
    Shape {
        pin,
        outers,
        place,
        kind: BPF_MAP_TYPE_LRU_HASH,
        key,
        value,
    }
}

const fn hash(pin: &'static str, names: [&'static str; 2], key: u32, value: u32) -> Shape {
    let outers = [
        Outer {
            name: names[0],
            flags: BPF_F_NO_PREALLOC,
        },
        Outer {
            name: names[1],
            flags: 0,
        },
    ];
    Shape {
        pin,
        outers,
        place: 0,
        kind: BPF_MAP_TYPE_HASH,
        key,
        value,
    }
}

const SHAPES: [Shape; 8] = [
    lru(
        "cilium_ct4_global",
        ["CILIUM_CT4", "CILIUM_CT4_CPU"],
        0,
        14,
        56,
    ),
    lru(
        "cilium_ct_any4_global",
        ["CILIUM_CT4", "CILIUM_CT4_CPU"],
        2,
        14,
        56,
    ),
    lru(
        "cilium_ct6_global",
        ["CILIUM_CT6", "CILIUM_CT6_CPU"],
        0,
        38,
        56,
    ),
    lru(
        "cilium_ct_any6_global",
        ["CILIUM_CT6", "CILIUM_CT6_CPU"],
        2,
        38,
        56,
    ),
    hash(
        "cilium_lb4_reverse_nat",
        ["CILIUM_NAT4", "CILIUM_NAT4_PRE"],
        2,
        6,
    ),
    hash(
        "cilium_lb6_reverse_nat",
        ["CILIUM_NAT6", "CILIUM_NAT6_PRE"],
        2,
        18,
    ),
    lru(
        "cilium_lb4_reverse_sk",
        ["CILIUM_SK4", "CILIUM_SK4_CPU"],
        0,
        16,
        8,
    ),
    lru(
        "cilium_lb6_reverse_sk",
        ["CILIUM_SK6", "CILIUM_SK6_CPU"],
        0,
        32,
        20,
    ),
];

/// A map of Cilium's that is pinned.
#[derive(Debug)]
struct Pinned {
    map: MapData,
    id: u32,
    /// The outer map for its flags.
    outer: Outer,
}

/// The maps that the programs look up now.
#[derive(Debug)]
pub struct Cilium {
    directory: PathBuf,
    pin_dir: PathBuf,
    known: [KnownMap; SHAPES.len()],
}

/// What is known of one of Cilium's maps.
#[derive(Debug, Default)]
struct KnownMap {
    /// The map at the first place.
    map: Option<Pinned>,
    /// Since when it is not pinned, though it may still be in use.
    unpinned: Option<Instant>,
    /// Since when the second place has the map before it.
    replaced: Option<Instant>,
    problem: Option<String>,
}

/// Makes our outer maps. Those of an earlier process are left to its programs.
pub fn prepare(pin_dir: &Path) -> Result<()> {
    for first in SHAPES.iter().filter(|shape| shape.place == 0) {
        let kinds = SHAPES
            .iter()
            .filter(|shape| shape.outers[0].name == first.outers[0].name)
            .count();
        for outer in first.outers {
            let path = maps::directory(pin_dir).join(outer.name);
            unpin(&path)?;
            let inner = first.sample(outer)?;
            let made =
                bpf::make_map_of_maps(outer.name, u32::try_from(2 * kinds)?, inner.fd().as_fd());
            let made = made.with_context(|| format!("cannot make {}", outer.name))?;
            bpf::pin(made.as_fd(), &path)?;
        }
    }
    Ok(())
}

impl Cilium {
    /// Looks up none yet. `directory`: where Cilium pins its maps.
    pub fn new(directory: &Path, pin_dir: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            pin_dir: pin_dir.to_owned(),
            known: Default::default(),
        }
    }

    /// Hands maps that Cilium has pinned since the last call to the programs, and takes back those
    /// that it no longer uses. True if the programs look any up.
    ///
    /// Errors: one of our maps cannot be written.
    pub fn follow(&mut self, now: Instant) -> Result<bool> {
        for (shape, known) in SHAPES.iter().zip(&mut self.known) {
            known.problem = None;
            match shape.open(&self.directory) {
                Ok(Some(pinned)) => {
                    if known.map.as_ref().is_none_or(|known| known.id != pinned.id) {
                        hand_over(&self.pin_dir, shape, known, pinned, now)?;
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
        Ok(self
            .known
            .iter()
            .any(|known| known.map.is_some() || known.replaced.is_some()))
    }

    /// Names of the maps that are looked up.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let known = SHAPES.iter().zip(&self.known);
        known.filter_map(|(shape, known)| known.map.as_ref().map(|_| shape.pin))
    }

    /// Why a map of Cilium's is not looked up.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.known
            .iter()
            .filter_map(|known| known.problem.as_deref())
    }
}

/// Whether something that began then has lasted for [`KEEP_OLD`].
fn is_over(since: Option<Instant>, now: Instant) -> bool {
    since.is_some_and(|since| now.duration_since(since) >= KEEP_OLD)
}

impl KnownMap {
    /// Takes maps from the programs that Cilium's have long stopped to use.
    fn forget(&mut self, shape: &Shape, pin_dir: &Path, now: Instant) -> Result<()> {
        // Where a map of unknown shape is pinned, no map shows what Cilium has written since.
        let unknown = self.problem.is_some();
        if is_over(self.replaced, now) || unknown && self.replaced.is_some() {
            set_place(pin_dir, shape, shape.place + 1, None)?;
            self.replaced = None;
        }
        if is_over(self.unpinned, now) || unknown && self.map.is_some() {
            set_place(pin_dir, shape, shape.place, None)?;
            self.map = None;
            self.unpinned = None;
        }
        Ok(())
    }
}

fn hand_over(
    pin_dir: &Path,
    shape: &Shape,
    known: &mut KnownMap,
    pinned: Pinned,
    now: Instant,
) -> Result<()> {
    if let Some(before) = known.map.take() {
        set_place(pin_dir, shape, shape.place + 1, Some(&before))?;
        known.replaced = Some(now);
    }
    set_place(pin_dir, shape, shape.place, Some(&pinned))?;
    tracing::info!(
        map = shape.pin,
        id = pinned.id,
        "connections are looked up in Cilium's map"
    );
    known.map = Some(pinned);
    Ok(())
}

/// Puts a map into a place of the outer map for its flags, and empties that place of the other one;
/// none empties both.
fn set_place(pin_dir: &Path, shape: &Shape, place: u32, pinned: Option<&Pinned>) -> Result<()> {
    // First the map, then the empty place: in between the programs find both.
    let own = pinned.map(|pinned| pinned.outer.name);
    let mut outers = shape.outers;
    outers.sort_by_key(|outer| own != Some(outer.name));
    for outer in outers {
        let path = maps::directory(pin_dir).join(outer.name);
        let map = bpf::open(&path)?.with_context(|| format!("{} is not pinned", path.display()))?;
        let inner = match pinned {
            Some(pinned) if own == Some(outer.name) => Some(pinned.map.fd().as_fd()),
            _ => None,
        };
        let written = bpf::set_inner_map(map.as_fd(), place, inner);
        written.with_context(|| format!("cannot write {}", outer.name))?;
    }
    Ok(())
}

impl Shape {
    /// A map of these flags as Cilium makes it: like Cilium's it has no BTF, which kernels before
    /// 6.2 compare.
    fn sample(&self, outer: Outer) -> Result<MapData> {
        let map =
            aya_obj::Map::new_from_params(self.kind as u32, self.key, self.value, 1, outer.flags);
        MapData::create(map, "sample", None).map_err(|error| explain(error, outer.name))
    }

    /// The map; `None` if Cilium has not pinned it.
    ///
    /// Errors: it has another shape, or flags that Cilium has no option for.
    fn open(&self, directory: &Path) -> Result<Option<Pinned>> {
        let path = directory.join(self.pin);
        let Some(map) = bpf::open(&path)? else {
            return Ok(None);
        };
        // What is pinned there may be a program or a link.
        let map =
            MapData::from_fd(map).with_context(|| format!("cannot read {}", path.display()))?;
        let info = map
            .info()
            .with_context(|| format!("cannot read {}", path.display()))?;
        let kind = info.map_type().ok().map(|kind| kind as u32);
        if (kind, info.key_size(), info.value_size())
            != (Some(self.kind as u32), self.key, self.value)
        {
            bail!(
                "{} has another shape than in Cilium 1.14 to 1.21, so what Cilium translates is not judged: update epguard",
                path.display()
            );
        }
        let outer = self
            .outers
            .into_iter()
            .find(|outer| outer.flags == info.map_flags());
        let Some(outer) = outer else {
            bail!(
                "{} has flags that no Cilium from 1.14 to 1.21 sets ({:#x}), so what Cilium translates is not judged: update \
                 epguard",
                path.display(),
                info.map_flags()
            );
        };
        let id = info.id();
        Ok(Some(Pinned { map, id, outer }))
    }
}
