//! The limits of answers a second: for one suspect, and for the node.

use crate::telemetry::Evidence;
use crate::{clock, maps};
use epguard_common::{AnswerLimits, Bucket, RawConfig};

/// Takes an answer, for which [`has_room`] found room, out of both buckets.
#[inline(always)]
pub fn take<E: Evidence>(config: *const RawConfig, evidence: &E, now_ns: u64) {
    let limits = maps::limits(config);
    if let Some(bucket) = bucket(evidence) {
        take_from(bucket, now_ns, limits.per_suspect);
    }
    if let Some(bucket) = maps::answers() {
        take_from(bucket, now_ns, limits.per_node);
    }
}

/// Takes an answer out of the node's bucket.
#[inline(always)]
pub fn take_of_node(config: *const RawConfig) -> bool {
    let limits = maps::limits(config);
    maps::answers().is_some_and(|bucket| take_from(bucket, clock::now_ns(), limits.per_node))
}

/// Whether both buckets have room for an answer.
#[inline(always)]
pub fn has_room<E: Evidence>(config: *const RawConfig, evidence: &E, now_ns: u64) -> bool {
    let AnswerLimits {
        per_suspect,
        per_node,
    } = maps::limits(config);
    bucket(evidence).is_some_and(|bucket| has_answer(bucket, now_ns, per_suspect))
        && maps::answers().is_some_and(|bucket| has_answer(bucket, now_ns, per_node))
}

#[inline(always)]
fn has_answer(bucket: *mut Bucket, now_ns: u64, per_second: u32) -> bool {
    // SAFETY: an entry that stays there for the run of the program; every bit pattern is a Bucket.
    let bucket = unsafe { bucket.read_volatile() };
    bucket.after(now_ns, per_second).is_some()
}

#[inline(always)]
fn bucket<E: Evidence>(evidence: &E) -> Option<*mut Bucket> {
    // SAFETY: a field of an entry that stays there for the run of the program.
    evidence
        .rate()
        .map(|rate| unsafe { &raw mut (*rate).answers })
}

/// Two CPUs that race may both answer: the compiler for BPF has no atomic exchange.
#[inline(always)]
fn take_from(bucket: *mut Bucket, now_ns: u64, per_second: u32) -> bool {
    // SAFETY: an entry that stays there, and writable, for the run of the program; every bit
    // pattern is a Bucket.
    unsafe {
        let after = bucket.read_volatile().after(now_ns, per_second);
        if let Some(after) = after {
            bucket.write_volatile(after);
        }
        after.is_some()
    }
}
