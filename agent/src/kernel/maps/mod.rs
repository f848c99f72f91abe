//! Writes the pinned maps: no other module does, except for MACS (`datapath/xdp`) and the maps of
//! Cilium's maps (`cilium`), which the thread of the hooks writes.

mod config;
mod counters;
mod flows;
#[cfg(test)]
mod fuzz;
mod gate;
mod keyed;
mod lifts;
mod lock;
mod pinned;
mod refusal;
mod view;
mod writer;

pub use config::{PinnedConfig, configuration, default_modes, set_action, set_mode, show_mode};
pub use counters::{Counters, Denied, Reading, counters, packets};
pub use keyed::KeyedMap;
pub use lifts::Lift;
pub use lock::{no_agent, only_agent};
pub use pinned::{NAMES, directory, open};
pub use view::ViewMap;
pub use writer::Writer;
