//! Follows what translates Services on this node, so that the programs read its records:
//! netfilter's conntrack, and Cilium's maps.

use crate::daemon::node_thread::TranslatorSnapshot;
use crate::kernel::cilium::Cilium;
use crate::kernel::conntrack::{entry_at, is_loaded};
use crate::kernel::maps;
use crate::node::netlink::netfilter::{dump, string};
use crate::shared::status::{Cause, Gap, Translators};
use anyhow::Result;
use epguard_common::{Outcome, Reason};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often counts and the settings of IPVS and nftables are read.
const SETTINGS: Duration = Duration::from_secs(10);
/// How long packets with an unreadable entry are shown.
const SHOWN: Duration = Duration::from_mins(10);

/// `NFT_MSG_GETFLOWTABLE` of `NFNL_SUBSYS_NFTABLES` in `linux/netfilter/nf_tables.h`, and
/// attributes of its answer.
const GET_FLOWTABLE: u16 = 0x0a17;
const TABLE: u16 = 1;
const NAME: u16 = 2;

/// What is known of the translators.
pub struct TranslatorFollower {
    /// Why no program reads conntrack entries.
    kernel: Option<String>,
    /// Where an entry lies in `struct nf_conn`, once that is known; 0 if it cannot be.
    entry_at: Option<u32>,
    /// Whether the module was there when the layout was looked for.
    looked: Option<bool>,
    cilium: Cilium,
    is_on_cilium: bool,
    settings: Vec<Gap>,
    /// Packets with an unreadable entry so far, and when there was one last.
    unreadable: Option<u64>,
    last_unreadable: Option<Instant>,
    read: Option<Instant>,
    pin_dir: PathBuf,
}

impl TranslatorFollower {
    /// Nothing is known yet. `nfct`: whether the programs find the entry of a packet. `cilium`:
    /// where Cilium pins its maps.
    pub fn new(nfct: &Result<u32>, cilium: &Path, pin_dir: &Path) -> Self {
        Self {
            kernel: nfct.as_ref().err().map(|error| format!("{error:#}")),
            entry_at: None,
            looked: None,
            cilium: Cilium::new(cilium, pin_dir),
            is_on_cilium: false,
            settings: Vec::new(),
            unreadable: None,
            last_unreadable: None,
            read: None,
            pin_dir: pin_dir.to_owned(),
        }
    }

    /// Looks for conntrack, until it is there, and for Cilium's maps.
    ///
    /// Errors: a map of Cilium's maps cannot be written.
    pub fn follow(&mut self) -> Result<()> {
        let looked = Some(is_loaded());
        if self.kernel.is_none() && self.entry_at.is_none() && self.looked != looked {
            self.looked = looked;
            match entry_at() {
                Ok(None) => {}
                Ok(Some(at)) => {
                    self.entry_at = Some(at);
                    tracing::info!("packets are judged by their conntrack entries");
                }
                Err(error) => {
                    self.entry_at = Some(0);
                    self.kernel = Some(format!("{error:#}"));
                }
            }
        }
        self.is_on_cilium = self.cilium.follow(Instant::now())?;
        let now = Instant::now();
        if self
            .read
            .is_none_or(|read| now.duration_since(read) >= SETTINGS)
        {
            self.read = Some(now);
            self.settings = settings();
            let count = maps::packets(
                &self.pin_dir,
                Reason::Nothing,
                Outcome::UnreadableConnection,
            );
            self.count_unreadable(count, now);
        }
        Ok(())
    }

    /// Takes note of new packets. Those that an earlier agent has counted do not count.
    fn count_unreadable(&mut self, count: u64, now: Instant) {
        if self.unreadable.is_some_and(|before| count > before) {
            self.last_unreadable = Some(now);
        }
        self.unreadable = Some(count);
    }

    fn shows_unreadable(&self, now: Instant) -> bool {
        self.last_unreadable
            .is_some_and(|last| now.duration_since(last) < SHOWN)
    }

    /// What was found, beside a socket load balancer or without.
    pub fn snapshot(&self, has_socket_lb: bool) -> TranslatorSnapshot {
        let has_other = self.is_on_cilium || has_socket_lb;
        let unreadable = if has_other { None } else { self.kernel.clone() };
        TranslatorSnapshot {
            entry_at: self.entry_at,
            cilium: self.is_on_cilium,
            shown: self.status(has_other),
            unreadable,
        }
    }

    fn status(&self, has_other: bool) -> Translators {
        let conntrack = self.kernel.is_none() && self.entry_at.is_some();
        let mut gaps = Vec::new();
        if let Some(why) = &self.kernel {
            gaps.push(gap(Cause::Kernel, why));
        } else if !conntrack && !has_other {
            let why = "the module nf_conntrack is not loaded";
            gaps.push(gap(Cause::NotLoaded, why));
        }
        for problem in self.cilium.problems() {
            gaps.push(gap(Cause::Cilium, problem));
        }
        if self.shows_unreadable(Instant::now()) {
            let count = self.unreadable.unwrap_or_default();
            gaps.push(gap(Cause::Unreadable, format!("{count} packets")));
        }
        gaps.extend(self.settings.iter().cloned());
        Translators {
            conntrack,
            cilium: self.cilium.names().map(Into::into).collect(),
            gaps,
        }
    }
}

fn gap(cause: Cause, detail: impl Into<String>) -> Gap {
    let detail = detail.into();
    Gap { cause, detail }
}

/// Translators that keep no entry, by the node's settings.
fn settings() -> Vec<Gap> {
    let mut gaps = Vec::new();
    if ipvs_without_conntrack() {
        let detail = "IPVS has Services, and net.ipv4.vs.conntrack is 0";
        gaps.push(gap(Cause::Ipvs, detail));
    }
    for flowtable in flowtables() {
        gaps.push(gap(Cause::Flowtable, flowtable));
    }
    gaps
}

/// Whether IPVS translates Services and makes no conntrack entries. kube-proxy sets
/// `net.ipv4.vs.conntrack` to 1.
fn ipvs_without_conntrack() -> bool {
    let setting = fs::read_to_string("/proc/sys/net/ipv4/vs/conntrack").unwrap_or_default();
    setting.trim() == "0"
        && File::open("/proc/net/ip_vs").is_ok_and(|file| has_services(BufReader::new(file)))
}

/// Behind three lines of headings comes a Service, if there is one. The rest may be long, and is
/// not read.
fn has_services(listed: impl BufRead) -> bool {
    listed.lines().take(4).count() == 4
}

/// The flowtables of nftables in this network namespace: packets of an established connection that
/// they forward have no entry. Empty where the kernel has none.
fn flowtables() -> Vec<String> {
    let names = dump(GET_FLOWTABLE, |names: &mut Vec<String>, flowtable| {
        if let Some(table) = string(flowtable, &[TABLE])
            && let Some(name) = string(flowtable, &[NAME])
        {
            names.push(format!("{table}/{name}"));
        }
    });
    names.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::node_thread::Snapshot;

    fn with(nfct: &Result<u32>) -> TranslatorFollower {
        let nowhere = Path::new("/nonexistent");
        TranslatorFollower::new(nfct, nowhere, nowhere)
    }

    #[test]
    fn a_kernel_that_shows_no_entry_keeps_from_enforcing_unless_a_socket_load_balancer_does() {
        let required = |translators: &TranslatorFollower, has_socket_lb| {
            let translators = translators.snapshot(has_socket_lb);
            Snapshot {
                translators,
                ..Snapshot::default()
            }
            .require_record()
        };
        let shows_none = with(&Err(anyhow::anyhow!("no BTF")));
        let refused = required(&shows_none, false).unwrap_err().to_string();
        assert!(
            refused.ends_with("no packet shows its Service: no BTF"),
            "{refused}"
        );
        required(&shows_none, true).unwrap();
        // The module may still come.
        required(&with(&Ok(104)), false).unwrap();
    }

    #[test]
    fn packets_with_an_unreadable_entry_are_shown_for_ten_minutes_after_the_last() {
        let mut translators = with(&Ok(104));
        let begin = Instant::now();
        let minutes = |count| begin + Duration::from_mins(count);
        let mut shown = |count, at| {
            translators.count_unreadable(count, minutes(at));
            translators.shows_unreadable(minutes(at))
        };
        assert!(!shown(5, 0), "counted by an earlier agent");
        assert!(!shown(5, 1));
        assert!(shown(6, 2));
        assert!(shown(6, 11));
        assert!(!shown(6, 12));
        assert!(shown(7, 13));
    }

    #[test]
    fn ipvs_is_in_use_where_it_has_a_service() {
        let headings = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  \
                        -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n";
        assert!(!has_services(headings.as_bytes()));
        assert!(has_services(
            format!("{headings}TCP  0A600001:0050 rr\n").as_bytes()
        ));
    }
}
