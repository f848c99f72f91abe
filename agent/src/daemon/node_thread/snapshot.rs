//! What the thread of the node has done and found so far.

use crate::shared::status::{Attachment, SocketLb, Translators, Unanswered};
use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// Everything that the thread has done and found so far.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Ticks that were carried out.
    pub ticks: u64,
    /// The number of the last event that was carried out.
    pub event: u64,
    /// The selected interfaces, ascending.
    pub interfaces: Vec<HookedInterface>,
    /// Interfaces at which packets may enter the stack in the name of an endpoint, each with the
    /// number of the event that announced it.
    pub entrances: BTreeMap<u32, u64>,
    /// Where they may not, and why.
    pub unanswered: Vec<Unanswered>,
    /// Whether every interface that existed at the start is hooked, or could not be hooked.
    pub settled: bool,
    /// The socket load balancer of the node.
    pub socket_lb: SocketLb,
    /// Whether it was told that flows are redirected, and every selected interface has the ingress
    /// hook, as far as events were carried out.
    pub translates_replies: bool,
    /// Whether every packet of a call that it translates meets a hook, as far as events were
    /// carried out.
    pub hooks_everywhere: bool,
    /// What records the Service that packets were aimed at.
    pub translators: TranslatorSnapshot,
}

/// A selected interface.
#[derive(Debug, Clone, Default)]
pub struct HookedInterface {
    /// The number of the event that announced it.
    pub event: u64,
    /// Its hooks.
    pub shown: Attachment,
}

/// What records the Service that packets were aimed at.
#[derive(Debug, Clone, Default)]
pub struct TranslatorSnapshot {
    /// Where a conntrack entry lies in `struct nf_conn`: 0 if it cannot be known, none while that
    /// is looked for.
    pub entry_at: Option<u32>,
    /// Whether Cilium's maps are looked up.
    pub cilium: bool,
    /// For the status.
    pub shown: Translators,
    /// Why no packet shows its Service; none if some do.
    pub unreadable: Option<String>,
}

impl Snapshot {
    /// Errors: no interface can be hooked.
    pub fn require_hook(&self) -> Result<()> {
        let mut interfaces = self.interfaces.iter();
        if interfaces.any(|interface| interface.shown.attached) {
            return Ok(());
        }
        let mut errors = self
            .interfaces
            .iter()
            .filter_map(|interface| interface.shown.error.as_deref());
        match errors.next() {
            Some(first) => {
                bail!("no interface can be hooked, so nothing would be enforced: {first}")
            }
            None => Ok(()),
        }
    }

    /// Errors: this kernel shows no record of any translator, so that no denial of a Service could
    /// be enforced.
    pub fn require_record(&self) -> Result<()> {
        match &self.translators.unreadable {
            Some(why) => bail!("nothing would be enforced, as no packet shows its Service: {why}"),
            None => Ok(()),
        }
    }
}
