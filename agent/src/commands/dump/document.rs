//! The pinned maps as one document.

use crate::kernel::maps::{self, KeyedMap};
use crate::shared::status::Status;
use anyhow::{Context as _, Result};
use aya::Pod;
use aya::maps::{HashMap, MapData};
use epguard_common::{
    Action, Addr, Denial, DenialKey, Keyed, Mode, Owner, RawDenial, Reason, ReasonActions,
    ServiceNumber, Suspect, Terminated, Uid, Vip,
};
use epguard_core::facts::Protocol;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// All pinned maps, with names where the maps have a number or a UID; `names` is the agent's
/// status. A denial has the highest mode that annotations allow (`bound`), whether the
/// breaker stops it (`stopped`), and the action for its packets unless they are only observed. Errors: no
/// datapath is pinned there.
pub fn collect(pin_dir: &Path, names: &Status) -> Result<Value> {
    let config = maps::configuration(pin_dir)?;
    let denials = pinned_denials(pin_dir)?;
    let stopped = ips_only_stopped(&denials);
    let owners = entries_without_keys::<Addr, Owner>(pin_dir, "OWNERS")?;
    let suspects = pinned_entries::<Addr, Suspect>(pin_dir, "SUSPECTS")?;
    let terminated = pinned_entries::<Addr, Terminated>(pin_dir, "TERMINATED")?;
    let counters = maps::counters(pin_dir)?.into_iter();
    Ok(json!({
        "mode": config.mode.as_str(),
        "ranges": names.ranges,
        "owners": rows_of(owners, |(ip, owner)| json!({
            "ip": ip.ip(),
            "uid": owner.uid.to_string(),
            "pod": names.pods.get(&owner.uid.to_string()),
            "generation": owner.generation,
            "flags": flags(owner.flags, [(Owner::DRAINING, "draining"), (Owner::CONFLICT, "conflict")]),
        })),
        "suspects": rows_of(suspects, |(ip, suspect)| {
            let denied = if stopped.contains(&ip) { "stopped" } else { "denied" };
            let flag_names = [(Suspect::DENIED, denied), (Suspect::DRAINING, "draining")];
            json!({"ip": ip.ip(), "flags": flags(suspect.flags, flag_names), "deadPod": pod_name(names, suspect.dead_uid)})
        }),
        "services": rows_of(pinned_services(pin_dir)?, |(vip, number)| json!({
            "vip": vip.addr.ip(),
            "port": vip.port,
            "protocol": protocol_name(vip.protocol),
            "number": number.number,
            "service": names.service(number),
        })),
        "denied": rows_of(denials, |(key, denial)| denial_row(names, config.actions, key, &denial)),
        "terminated": rows_of(terminated, |(ip, terminated)| json!({
            "ip": ip.ip(),
            "deadPod": pod_name(names, terminated.dead_uid),
            "bound": Mode::from_raw(terminated.mode).as_str(),
            "action": action_name(Action::from_raw(terminated.action), Reason::Terminated, config.actions),
            "lifted": terminated.lifted_ns != 0,
        })),
        "counters": counters.map(|((reason, outcome), count)| json!({
            "reason": reason.as_str(),
            "outcome": outcome.as_str(),
            "packets": count.packets,
            "bytes": count.bytes,
        })).collect::<Vec<_>>(),
    }))
}

fn denial_row(names: &Status, chosen: ReasonActions, key: DenialKey, denial: &Denial) -> Value {
    json!({
        "service": names.service_or_number(key.service),
        "ip": key.addr.ip(),
        "port": key.port,
        "protocol": protocol_name(key.protocol),
        "reason": denial.reason.as_str(),
        "state": denial.uid_state,
        "bound": denial.mode.as_str(),
        "stopped": denial.stopped != 0,
        "action": action_name(denial.action, denial.reason, chosen),
        "meant": pod_name(names, denial.dead_uid).unwrap_or_default(),
        "hit": pod_name(names, denial.owner_uid).unwrap_or_default(),
    })
}

/// All denials of the pinned maps; entries that no epguard wrote are left out.
pub fn pinned_denials(pin_dir: &Path) -> Result<Vec<(DenialKey, Denial)>> {
    let raw = pinned_entries::<DenialKey, RawDenial>(pin_dir, "DENIED")?.into_iter();
    Ok(raw
        .filter_map(|(target, raw)| Some((target, raw.checked()?)))
        .collect())
}

/// All addresses of affected Services in the pinned maps.
pub fn pinned_services(pin_dir: &Path) -> Result<Vec<(Vip, ServiceNumber)>> {
    pinned_entries(pin_dir, "SERVICES")
}

/// All entries of a pinned hash map whose values carry their keys.
pub fn pinned_entries<K, V>(pin_dir: &Path, name: &str) -> Result<Vec<(K, V)>>
where
    K: Pod + Ord,
    Keyed<K, V>: Pod,
{
    let map = maps::open::<KeyedMap<K, V>>(pin_dir, name)?;
    map.entries().with_context(|| format!("cannot read {name}"))
}

/// All entries of a pinned hash map whose values do not carry their keys.
fn entries_without_keys<K: Pod + Ord, V: Pod>(pin_dir: &Path, name: &str) -> Result<Vec<(K, V)>> {
    let map: HashMap<MapData, K, V> = maps::open(pin_dir, name)?;
    map.iter()
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("cannot read {name}"))
}

/// A row for each entry, by key.
fn rows_of<K: Ord + Copy, V>(
    mut entries: Vec<(K, V)>,
    row: impl FnMut((K, V)) -> Value,
) -> Vec<Value> {
    entries.sort_by_key(|(key, _)| *key);
    entries.into_iter().map(row).collect()
}

fn pod_name(names: &Status, uid: Uid) -> Option<String> {
    if uid == Uid::NONE {
        return None;
    }
    Some(names.pod(uid))
}

/// The action for packets of a denial, by the rules of the datapath: its `own` one, or that which
/// the operator chose for its reason.
fn action_name(own: Action, reason: Reason, mut chosen: ReasonActions) -> &'static str {
    let chosen = chosen
        .get_mut(reason)
        .map_or(Action::Unset, |action| *action);
    own.or(chosen).or(Action::Drop).as_str()
}

/// IPs whose denials are all stopped, so that every packet to them passes.
fn ips_only_stopped(denials: &[(DenialKey, Denial)]) -> BTreeSet<Addr> {
    let mut stopped = BTreeSet::new();
    let mut carried_out = BTreeSet::new();
    for (key, denial) in denials {
        if denial.stopped == 0 {
            carried_out.insert(key.addr);
        } else {
            stopped.insert(key.addr);
        }
    }
    &stopped - &carried_out
}

fn flags(bits: u32, names: [(u32, &'static str); 2]) -> Vec<&'static str> {
    let set = names.into_iter().filter(|(bit, _)| bits & bit != 0);
    set.map(|(_, name)| name).collect()
}

fn protocol_name(number: u8) -> &'static str {
    Protocol::from_repr(number).map_or("?", Protocol::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use epguard_common::{RawDenial, UidState};

    #[test]
    fn an_ip_is_stopped_only_if_all_of_its_denials_are() {
        let (x, y) = (Addr::v4([10, 244, 1, 10]), Addr::v4([10, 244, 1, 11]));
        let entry = |addr, port, stopped| {
            let target = DenialKey::new(addr, ServiceNumber { number: 1 }, port, 6);
            let (reason, uid_state) = (Reason::Reused as u32, UidState::Dead as u32);
            let denial = RawDenial {
                reason,
                uid_state,
                stopped,
                ..RawDenial::default()
            };
            (target, denial.checked().unwrap())
        };
        let denials = [
            entry(x, 80, 1),
            entry(x, 443, 1),
            entry(y, 80, 1),
            entry(y, 443, 0),
        ];
        assert_eq!(ips_only_stopped(&denials), BTreeSet::from([x]));
    }

    #[test]
    fn each_word_of_a_denial_is_in_lower_case() {
        let number = ServiceNumber { number: 1 };
        let key = DenialKey::new(Addr::v4([10, 244, 1, 10]), number, 80, 6);
        let denial = RawDenial {
            reason: Reason::Reused as u32,
            uid_state: UidState::Dead as u32,
            ..RawDenial::default()
        };
        let denial = denial.checked().unwrap();
        let row = denial_row(&Status::default(), ReasonActions::default(), key, &denial);
        for (field, word) in [
            ("reason", "reused"),
            ("state", "dead"),
            ("bound", denial.mode.as_str()),
            ("action", "drop"),
        ] {
            assert_eq!(row[field], word, "{row}");
        }
    }

    #[test]
    fn a_denial_shows_the_action_of_its_service_or_of_the_operator_or_drop() {
        let chosen = ReasonActions {
            reused: Action::Reject,
            terminated: Action::Reject,
            ..ReasonActions::default()
        };
        for (reason, own, shown) in [
            (Reason::Reused, Action::Redirect, "redirect"),
            (Reason::Reused, Action::Drop, "drop"),
            (Reason::Reused, Action::Unset, "reject"),
            (Reason::DeadBackend, Action::Unset, "drop"),
            (Reason::Terminated, Action::Unset, "reject"),
        ] {
            assert_eq!(
                action_name(own, reason, chosen),
                shown,
                "{reason:?}, {own:?}"
            );
        }
    }
}
