//! Freshness checks: decides when a consistent list proves that a watch misses nothing. Pure.
//!
//! A consistent list that was sent at a moment and answered at resourceVersion N holds all changes
//! up to that moment (KEP-2340). It proves nothing about the stream, which may lag behind it by any
//! time: in the server's watch cache, in a queue, on the wire. So it makes the *view* fresh as of
//! that moment only if one of these shows that the stream has no further changes up to N:
//!
//! * **marker**: the stream itself shows an event or a bookmark of N or later; it is ordered, so
//!   all before has come (KEP-956);
//! * **probe**: a second, short watch from the stream's version gets a bookmark of N or later, and
//!   the stream has shown every event that the probe got before it. That is for collections in
//!   which nothing changes: N comes from a counter that all collections share, and a stream gets
//!   bookmarks but once a minute;
//! * **content**: the list shows the whole collection, no object of it is newer than the last
//!   version that the stream has shown, and there are as many as the stream has shown. Any other
//!   change would have left a newer object, or one fewer.
//!
//! An event or a bookmark alone proves nothing about age: an event that comes now may have happened
//! long ago.

use super::request_error::RequestError;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// How long a stream may take to show a marker before a probe is sent, if the proof is urgent.
const MARKER: Duration = Duration::from_millis(250);
/// The same if it is not: where something changes each second, no probe is needed.
const PATIENT_MARKER: Duration = Duration::from_secs(1);
/// Longest time from a probe to the proof.
const PROBED_WITHIN: Duration = Duration::from_secs(4);
/// How long a stream may lack what a list or a probe has shown before its proofs are void: the view
/// is known to be incomplete, and what is missing may be the new owner of a denied IP. Longer than
/// events take in a healthy cluster.
const LATE: Duration = Duration::from_secs(1);
/// How long a stream may take to show what a list or a probe has shown before it is given up.
const CATCH_UP: Duration = Duration::from_secs(3);
/// Most answers that wait. A server whose bookmarks lag proves the older ones of them.
const ANSWERS: usize = 4;

/// The answer to a consistent list, until it proves something.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckAnswer {
    /// When the list was asked for, of `CLOCK_BOOTTIME`.
    pub(super) sent: Duration,
    /// The list's resourceVersion.
    pub(super) version: u64,
    /// The newest of its objects' resourceVersions; 0 without any.
    pub(super) newest: u64,
    /// How many objects exist, if the list shows them all.
    pub(super) objects: Option<usize>,
    /// When to send a probe, unless the stream shows a marker before; none once it was sent.
    pub(super) probe_at: Option<Instant>,
}

/// The result of a short watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    /// The resourceVersion of its first event, and when it came.
    pub(super) first: Option<(u64, Instant)>,
    /// The resourceVersion of its last event before the bookmark; without an event, the version at
    /// which it began.
    pub(super) last: u64,
    /// The bookmark's resourceVersion: no other event happened up to here.
    pub(super) through: u64,
}

/// What a stream has shown so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shown {
    /// It has shown everything up to this resourceVersion.
    pub(super) version: u64,
    /// How many objects exist as of then, if that is certain.
    pub(super) objects: Option<usize>,
}

/// What to do about the answers that prove nothing yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CheckStep {
    /// Do nothing before then, unless the stream shows more; do nothing at all if none.
    Wait(Option<Instant>),
    /// Send a probe.
    Probe,
    /// The stream lacks what a list or a probe has shown: earlier proofs are void. Returned once
    /// each time.
    Late,
    /// The stream doesn't show this resourceVersion, which a list or a probe has shown.
    Behind(u64),
}

/// The freshness checks of one stream: answers, until they prove something.
#[derive(Debug, Default)]
pub(super) struct FreshnessChecks {
    /// By their resourceVersions: the last one proves all narrow lists.
    answers: Vec<CheckAnswer>,
    /// The greatest resourceVersion of a list whose content was what the stream had shown.
    same_as: u64,
    probe: Option<Probe>,
    probing: bool,
    /// Objects that a list or a probe has shown and the stream may lack, and since when; versions
    /// and times ascend.
    elsewhere: VecDeque<(u64, Instant)>,
    /// The version of the last one for which [`CheckStep::Late`] was returned.
    late: u64,
}

impl FreshnessChecks {
    /// True if a list or a probe has shown what the stream has not.
    pub(super) fn stream_lacks(&self, shown: Shown) -> bool {
        let newest = self.elsewhere.back();
        newest.is_some_and(|(newest, _)| *newest > shown.version)
    }

    /// Takes in the answer to a list.
    pub(super) fn list_answered(&mut self, answer: CheckAnswer, at: Instant) {
        self.seen_elsewhere(answer.newest, at);
        let is_older = |other: &CheckAnswer| other.version <= answer.version;
        self.answers
            .insert(self.answers.partition_point(is_older), answer);
        if self.answers.len() > ANSWERS {
            self.answers.remove(0);
        }
    }

    /// Takes in the end of a probe. Errors: it failed, or it did not reach an answer that it should
    /// have reached.
    pub(super) fn probe_ended(
        &mut self,
        probe: Result<Probe, RequestError>,
        at: Instant,
    ) -> Result<(), RequestError> {
        self.probing = false;
        let probe = probe?;
        // The stream has lacked it since then, and not only since the probe ended.
        if let Some((first, since)) = probe.first {
            self.seen_elsewhere(first, since);
        }
        self.seen_elsewhere(probe.last, at);
        self.probe = Some(probe);
        let newest_probed = self
            .answers
            .iter()
            .rfind(|answer| answer.probe_at.is_none());
        match newest_probed {
            Some(answer) if answer.version > probe.through => {
                Err(RequestError::NoBookmark(answer.version))
            }
            _ => Ok(()),
        }
    }

    /// The resourceVersion up to which the stream is known to be complete.
    pub(super) fn complete_up_to(&self, shown: Shown) -> u64 {
        let mut complete = shown.version.max(self.same_as);
        if let Some(probe) = self.probe
            && probe.last <= shown.version
        {
            complete = complete.max(probe.through);
        }
        complete
    }

    /// Takes out the answers that the stream has proven by now. Returns the greatest
    /// resourceVersion of their lists, and the moment as of which the view is complete.
    pub(super) fn take_proven(&mut self, shown: Shown) -> Option<(u64, Duration)> {
        for answer in &self.answers {
            let same = answer.objects.is_some() && answer.objects == shown.objects;
            if same && answer.newest <= shown.version {
                self.same_as = self.same_as.max(answer.version);
            }
        }
        let complete = self.complete_up_to(shown);
        let proven = self
            .answers
            .extract_if(.., |answer| answer.version <= complete);
        let mut newest: Option<(u64, Duration)> = None;
        for answer in proven {
            let (version, as_of) = newest.unwrap_or_default();
            newest = Some((version.max(answer.version), as_of.max(answer.sent)));
        }
        newest
    }

    /// What to do about the remaining answers. [`CheckStep::Probe`] counts the probe as sent.
    pub(super) fn decide(&mut self, shown: Shown, now: Instant) -> CheckStep {
        self.elsewhere
            .retain(|(version, _)| *version > shown.version);
        let mut wake = None;
        if let Some((oldest, since)) = self.elsewhere.front().copied() {
            let is_late = self.late == oldest;
            if now >= since + CATCH_UP {
                return CheckStep::Behind(oldest);
            }
            if now >= since + LATE && !is_late {
                self.late = oldest;
                return CheckStep::Late;
            }
            wake = Some(since + if is_late { CATCH_UP } else { LATE });
        }
        if self.probing {
            return CheckStep::Wait(wake);
        }
        let probe_at = self.answers.iter().rev().find_map(|answer| answer.probe_at);
        if probe_at.is_none_or(|probe_at| now < probe_at) {
            return CheckStep::Wait(wake.into_iter().chain(probe_at).min());
        }
        self.probing = true;
        for answer in &mut self.answers {
            answer.probe_at = None;
        }
        CheckStep::Probe
    }

    fn seen_elsewhere(&mut self, version: u64, since: Instant) {
        let newest = self.elsewhere.back();
        if newest.is_none_or(|(newest, _)| *newest < version) {
            self.elsewhere.push_back((version, since));
        }
    }
}

/// How long to wait for a marker if the proof is needed within a time.
pub(super) fn patience(within: Duration) -> Duration {
    within
        .saturating_sub(PROBED_WITHIN)
        .clamp(MARKER, PATIENT_MARKER)
}

#[cfg(test)]
mod tests;
