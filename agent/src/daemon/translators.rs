//! Follows what translates Services on this node, so that the programs read its records: netfilter's conntrack, and Cilium's maps.

use crate::kernel::cilium::Cilium;
use crate::kernel::conntrack::entry_at;
use crate::kernel::maps::{self, Writer};
use crate::node::offload;
use crate::shared::status::{Cause, Gap, Translators as Shown};
use anyhow::{Result, bail};
use epguard_common::{Outcome, Reason};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the settings of IPVS and nftables are read.
const SETTINGS: Duration = Duration::from_secs(10);

/// What is known of the translators.
pub struct Translators {
    /// Why no program reads conntrack entries.
    kernel: Option<String>,
    /// Whether the layout of an entry is known.
    has_layout: bool,
    cilium: Cilium,
    is_on_cilium: bool,
    settings: Vec<Gap>,
    read: Option<Instant>,
    pin_dir: PathBuf,
}

impl Translators {
    /// Nothing is known yet. `nfct`: whether the programs find the entry of a packet. `cilium`: where Cilium pins its maps.
    #[must_use]
    pub fn new(nfct: &Result<u32>, cilium: &Path, pin_dir: &Path) -> Self {
        Self {
            kernel: nfct.as_ref().err().map(|error| format!("{error:#}")),
            has_layout: false,
            cilium: Cilium::new(cilium, pin_dir),
            is_on_cilium: false,
            settings: Vec::new(),
            read: None,
            pin_dir: pin_dir.to_owned(),
        }
    }

    /// Looks for conntrack, until it is there, and for Cilium's maps.
    ///
    /// Errors: a map cannot be written, or has to be made anew by the next process.
    pub fn follow(&mut self, writer: &mut Writer) -> Result<()> {
        if self.kernel.is_none() && !self.has_layout {
            match entry_at() {
                Ok(None) => {}
                Ok(Some(at)) => {
                    writer.read_entries_at(at)?;
                    self.has_layout = true;
                    tracing::info!("packets are judged by their conntrack entries");
                }
                Err(error) => {
                    writer.read_entries_at(0)?;
                    self.kernel = Some(format!("{error:#}"));
                }
            }
        }
        self.is_on_cilium = self.cilium.follow(Instant::now())?;
        writer.read_cilium(self.is_on_cilium)?;
        if self.read.is_none_or(|read| read.elapsed() >= SETTINGS) {
            self.read = Some(Instant::now());
            self.settings = settings();
        }
        Ok(())
    }

    /// Errors: this kernel shows no record of any translator, so that no denial of a Service could be enforced.
    pub fn require_one(&self, has_socket_lb: bool) -> Result<()> {
        match &self.kernel {
            Some(why) if !self.is_on_cilium && !has_socket_lb => {
                bail!("nothing would be enforced, as no packet shows its Service: {why}")
            }
            _ => Ok(()),
        }
    }

    /// For the status.
    #[must_use]
    pub fn shown(&self, has_socket_lb: bool) -> Shown {
        let conntrack = self.kernel.is_none() && self.has_layout;
        let mut gaps = Vec::new();
        let mut add = |cause, detail: &str| {
            let detail = detail.to_owned();
            gaps.push(Gap { cause, detail });
        };
        let has_other = self.is_on_cilium || has_socket_lb;
        if let Some(why) = &self.kernel {
            add(Cause::Kernel, why);
        } else if !conntrack && !has_other {
            add(Cause::NotLoaded, "the module nf_conntrack is not loaded");
        }
        self.cilium
            .problems()
            .for_each(|problem| add(Cause::Cilium, problem));
        let unreadable = maps::packets(&self.pin_dir, Reason::Nothing, Outcome::UnreadableConnection);
        if unreadable > 0 {
            add(Cause::Unreadable, &format!("{unreadable} packets"));
        }
        gaps.extend(self.settings.iter().cloned());
        Shown {
            conntrack,
            cilium: self.cilium.names().map(Into::into).collect(),
            gaps,
        }
    }
}

/// Translators that keep no entry, by the node's settings.
fn settings() -> Vec<Gap> {
    let ipvs = offload::ipvs_without_conntrack().then(|| Gap {
        cause: Cause::Ipvs,
        detail: "IPVS has Services, and net.ipv4.vs.conntrack is 0".to_owned(),
    });
    let flowtables = offload::flowtables().into_iter().map(|name| Gap {
        cause: Cause::Flowtable,
        detail: name,
    });
    ipvs.into_iter().chain(flowtables).collect()
}
