//! The breaker: what stops a mass denial.
//!
//! A denial that rests on one list alone, or that goes beyond the Service's share, is stopped: the
//! agent reports its packets and lets them pass. It is carried out once a second list agrees with
//! it, or once somebody releases it by hand.
//!
//! ```text
//! proof -> Breaker::stop -> carried out
//!             | stopped
//!             v
//!          a later list (SecondLists requests it) -> Breaker::decide -> carried out, or dropped
//! ```

mod evidence;
mod second_list;
mod share;
mod stopped;
mod two_sources;

pub use evidence::EvidenceLists;
pub(crate) use second_list::{ReceivedList, SecondLists, Wanted};
pub use second_list::{SecondList, request_spread};
pub use stopped::{StopReason, Stopped, StoppedService};
pub use two_sources::TwoSources;

use crate::counts::Counts;
use crate::facts::ObjectName;
use crate::state::index::ClusterIndex;
use epguard_common::{Addr, Denial, Uid};
use share::Share;
use std::time::Duration;

/// The breaker at work on one Service, while that is judged.
pub struct Breaker<'a> {
    cluster: &'a ClusterIndex,
    now: Duration,
    /// The lists that have come since the Service was judged last.
    lists: &'a [ReceivedList],
    evidence: EvidenceLists<'a>,
    share: Share<'a>,
    two_sources: TwoSources<'a>,
}

/// What happens with a stopped denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// It stays stopped.
    Stop,
    /// It is carried out from now on.
    CarryOut,
    /// It ends: a list that it awaits disagrees with it.
    Drop,
}

impl<'a> Breaker<'a> {
    /// The breaker for a Service on which these lists have come since it was judged last.
    pub fn new(
        cluster: &'a ClusterIndex,
        now: Duration,
        service: &'a ObjectName,
        lists: &'a [ReceivedList],
    ) -> Self {
        Self {
            cluster,
            now,
            lists,
            evidence: EvidenceLists::new(cluster, service),
            share: Share::new(cluster, now, service),
            two_sources: TwoSources::new(cluster, service),
        }
    }

    /// True if the kubelet and the slices agree about a denial at an IP: it fills no share.
    pub fn two_sources_agree(&mut self, ip: Addr, meant: Uid) -> bool {
        self.two_sources.agree(ip, meant)
    }

    /// What stops a new denial at an IP; none if it is carried out. `was_carried_out`: an earlier
    /// process carried it out. `filled`: how many denials at each IP fill the share of the Service.
    pub fn stop_if_needed(
        &mut self,
        ip: Addr,
        proven: &Denial,
        was_carried_out: bool,
        filled: &Counts<Addr>,
    ) -> Option<Stopped> {
        let reason = self.reason_to_stop(ip, proven, was_carried_out, filled)?;
        let is_listed = self.two_sources.lists(ip);
        let stopped = Stopped::new(self.cluster, self.now, reason, self.lists, is_listed);
        Some(stopped)
    }

    fn reason_to_stop(
        &mut self,
        ip: Addr,
        proven: &Denial,
        was_carried_out: bool,
        filled: &Counts<Addr>,
    ) -> Option<StopReason> {
        let comes_with_a_list = !self.lists.is_empty() || rests_on_one_list(self.cluster, proven);
        if comes_with_a_list && !was_carried_out {
            return Some(StopReason::OneList);
        }
        if self.two_sources.agree(ip, proven.dead_uid) || self.share.fits(ip, filled) {
            return None;
        }
        Some(StopReason::MoreThanHalf)
    }

    /// Decides about a stopped denial at an IP, which `dead` was meant for, by the lists that have
    /// come and by what is proven now.
    pub fn decide(
        &mut self,
        stopped: &mut Stopped,
        ip: Addr,
        dead: Uid,
        proven: Option<&Denial>,
    ) -> Ruling {
        let decision = self.decide_by_lists(stopped, ip, dead, proven.is_some());
        if let Some(proven) = proven
            && stopped.reason == StopReason::MoreThanHalf
            && self.two_sources.agree(ip, proven.dead_uid)
        {
            return Ruling::CarryOut;
        }
        decision
    }

    fn decide_by_lists(
        &self,
        stopped: &mut Stopped,
        ip: Addr,
        dead: Uid,
        is_proven: bool,
    ) -> Ruling {
        let second: Vec<&ReceivedList> = self
            .lists
            .iter()
            .filter(|list| stopped.is_second(list))
            .collect();
        if second.is_empty() && stopped.agreed.is_empty() {
            return Ruling::Stop;
        }
        let awaited = self.evidence.lists_at(ip, stopped.awaits);
        let came = awaited
            .iter()
            .filter(|awaited| second.iter().any(|list| list.covers(awaited)));
        if is_proven {
            stopped.agreed.extend(came.cloned());
            return if awaited.iter().all(|list| stopped.agreed.contains(list)) {
                Ruling::CarryOut
            } else {
                Ruling::Stop
            };
        }
        let is_alive = second
            .iter()
            .any(|list| self.evidence.shows_alive(list, dead));
        if is_alive || came.count() > 0 {
            Ruling::Drop
        } else {
            Ruling::Stop
        }
    }
}

/// True if one list of everything and nothing else shows the end of the pod that was meant. A
/// narrow list may agree that it has ended, but not that other pods are missing.
fn rests_on_one_list(cluster: &ClusterIndex, proven: &Denial) -> bool {
    let meant = cluster.pods.get(proven.dead_uid);
    meant.is_some_and(|record| record.is_by_one_list || record.is_by_narrow_lists)
}
