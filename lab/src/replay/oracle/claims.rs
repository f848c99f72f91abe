//! The owner of the IP, which claim is newer, and which packets may be denied.

use super::super::{
    pod::{self, Answer},
    world::{Gone, Key, Standing, World},
};
use super::Shape;
use crate::object::opted_out;
use epguard_common::Reason;
use std::{collections::BTreeSet, net::IpAddr};

/// The one live pod that claims the IP, if any.
pub(super) fn owner(world: &World, key: &Key) -> Result<Option<String>, &'static str> {
    let mut claimants = world.live_pods().filter(|(_, record)| pod::ips(&record.object).contains(&key.ip));
    let Some((uid, record)) = claimants.next() else {
        return Ok(None);
    };
    if world.is_own(key, &record.object) {
        return Err("a live pod of the Service claims the IP");
    }
    if opted_out(&record.object) {
        return Err("the pod that claims the IP opted out");
    }
    if claimants.next().is_some() {
        return Err("two live pods claim the IP");
    }
    Ok(Some(uid.to_owned()))
}

/// All packets if every meant pod is Dead; only openers if a Retired one may still serve connections from before.
pub(super) fn strengths(world: &World, key: &Key, meant: &BTreeSet<String>) -> Vec<Shape> {
    let (dead, retired): (Vec<&String>, Vec<&String>) =
        meant.iter().partition(|uid| world.standing(uid) == Standing::Dead);
    let all = Shape { reason: Reason::DeadBackend, openers_only: false };
    let openers = Shape { reason: Reason::RetiredBackend, openers_only: true };
    let superseded = |old: &&String| dead.iter().any(|new| order(world, new, old, key.ip) != Answer::No);
    match (retired.is_empty(), retired.iter().all(superseded)) {
        (true, _) => vec![all],
        (false, true) => vec![openers, all],
        (false, false) => vec![openers],
    }
}

pub(super) fn newer_than_retired(
    world: &World,
    key: &Key,
    meant: &BTreeSet<String>,
    owner: &str,
    required: &mut bool,
) -> Result<(), &'static str> {
    for uid in meant.iter().filter(|uid| world.standing(uid) == Standing::Retired) {
        match order(world, owner, uid, key.ip) {
            Answer::Yes => {}
            Answer::Perhaps => *required = false,
            Answer::No => return Err("which claim of the IP is newer is unknown"),
        }
    }
    Ok(())
}

/// Whether one pod's claim is newer than another's; across a gap in the watch the order is uncertain.
fn order(world: &World, newer: &str, older: &str, ip: IpAddr) -> Answer {
    let claim = |uid| world.pods.get(uid)?.claims.get(&ip);
    match (claim(newer), claim(older)) {
        (Some(new), Some(old)) if new.sequence > old.sequence => {
            let continuous = new.epoch == world.epoch && old.epoch == world.epoch;
            if continuous { Answer::Yes } else { Answer::Perhaps }
        }
        _ => Answer::No,
    }
}

/// True if a finished pod that was never listed there publishes the IP and is not proven dead. The text does not say if
/// that is a claim, so a denial of fewer packets is accepted.
pub(super) fn retired_stranger_claims(world: &World, key: &Key, meant: &BTreeSet<String>) -> bool {
    world.pods.iter().any(|(uid, record)| {
        record.gone == Gone::No
            && !meant.contains(uid)
            && world.standing(uid) == Standing::Retired
            && pod::ips(&record.object).contains(&key.ip)
    })
}
