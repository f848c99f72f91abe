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
    let pod = |uid: Uid| (uid != Uid::NONE).then(|| names.pod(uid));
    let config = maps::configuration(pin_dir)?;
    let denials = denials(pin_dir)?;
    let stopped = ips_only_stopped(&denials);
    let owners = entries::<Addr, Owner>(pin_dir, "OWNERS")?;
    let suspects = keyed::<Addr, Suspect>(pin_dir, "SUSPECTS")?;
    let terminated = keyed::<Addr, Terminated>(pin_dir, "TERMINATED")?;
    let counters = maps::counters(pin_dir)?.into_iter();
    Ok(json!({
        "mode": config.mode.as_str(),
        "ranges": names.ranges,
        "owners": sorted(owners, |(ip, owner)| json!({
            "ip": ip.ip(),
            "uid": owner.uid.to_string(),
            "pod": names.pods.get(&owner.uid.to_string()),
            "generation": owner.generation,
            "flags": flags(owner.flags, [(Owner::DRAINING, "draining"), (Owner::CONFLICT, "conflict")]),
        })),
        "suspects": sorted(suspects, |(ip, suspect)| {
            let denied = if stopped.contains(&ip) { "stopped" } else { "denied" };
            let names = [(Suspect::DENIED, denied), (Suspect::DRAINING, "draining")];
            json!({"ip": ip.ip(), "flags": flags(suspect.flags, names), "deadPod": pod(suspect.dead_uid)})
        }),
        "services": sorted(services(pin_dir)?, |(vip, number)| json!({
            "vip": vip.addr.ip(),
            "port": vip.port,
            "protocol": protocol(vip.protocol),
            "number": number.number,
            "service": names.service(number),
        })),
        "denied": sorted(denials, |(target, denial)| json!({
            "service": names.service_or_number(target.service),
            "ip": target.addr.ip(),
            "port": target.port,
            "protocol": protocol(target.protocol),
            "reason": denial.reason.as_str(),
            "state": format!("{:?}", denial.uid_state),
            "bound": denial.mode.as_str(),
            "stopped": denial.stopped != 0,
            "action": action(denial.action, denial.reason, config.actions),
            "meant": pod(denial.dead_uid).unwrap_or_default(),
            "hit": pod(denial.owner_uid).unwrap_or_default(),
        })),
        "terminated": sorted(terminated, |(ip, terminated)| json!({
            "ip": ip.ip(),
            "deadPod": pod(terminated.dead_uid),
            "bound": Mode::from_raw(terminated.mode).as_str(),
            "action": action(Action::from_raw(terminated.action), Reason::Terminated, config.actions),
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

/// All denials of the pinned maps; entries that no epguard wrote are left out.
pub fn denials(pin_dir: &Path) -> Result<Vec<(DenialKey, Denial)>> {
    let raw = keyed::<DenialKey, RawDenial>(pin_dir, "DENIED")?.into_iter();
    Ok(raw
        .filter_map(|(target, raw)| Some((target, raw.checked()?)))
        .collect())
}

/// All addresses of affected Services in the pinned maps.
pub fn services(pin_dir: &Path) -> Result<Vec<(Vip, ServiceNumber)>> {
    keyed(pin_dir, "SERVICES")
}

/// All entries of a pinned hash map whose values carry their keys.
pub fn keyed<K, V>(pin_dir: &Path, name: &str) -> Result<Vec<(K, V)>>
where
    K: Pod + Ord,
    Keyed<K, V>: Pod,
{
    let map = maps::open::<KeyedMap<K, V>>(pin_dir, name)?;
    map.entries().with_context(|| format!("cannot read {name}"))
}

/// All entries of a pinned hash map whose values do not carry their keys.
fn entries<K: Pod + Ord, V: Pod>(pin_dir: &Path, name: &str) -> Result<Vec<(K, V)>> {
    let map: HashMap<MapData, K, V> = maps::open(pin_dir, name)?;
    map.iter()
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("cannot read {name}"))
}

fn sorted<K: Ord + Copy, V>(
    mut entries: Vec<(K, V)>,
    row: impl FnMut((K, V)) -> Value,
) -> Vec<Value> {
    entries.sort_by_key(|(key, _)| *key);
    entries.into_iter().map(row).collect()
}

/// The action for packets of a denial, by the rules of the datapath: its `own` one, or that which
/// the operator chose for its reason.
fn action(own: Action, reason: Reason, mut chosen: ReasonActions) -> &'static str {
    let chosen = chosen
        .get_mut(reason)
        .map_or(Action::Unset, |action| *action);
    own.or(chosen).or(Action::Drop).as_str()
}

/// IPs whose denials are all stopped, so that every packet to them passes.
fn ips_only_stopped(denials: &[(DenialKey, Denial)]) -> BTreeSet<Addr> {
    let mut stopped = BTreeSet::new();
    let mut carried_out = BTreeSet::new();
    for (target, denial) in denials {
        if denial.stopped == 0 {
            carried_out.insert(target.addr);
        } else {
            stopped.insert(target.addr);
        }
    }
    &stopped - &carried_out
}

fn flags(bits: u32, names: [(u32, &'static str); 2]) -> Vec<&'static str> {
    let set = names.into_iter().filter(|(bit, _)| bits & bit != 0);
    set.map(|(_, name)| name).collect()
}

fn protocol(number: u8) -> &'static str {
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
    fn a_denial_shows_the_action_of_its_service_or_of_the_operator_or_drop() {
        let chosen = ReasonActions {
            reused: Action::Reject,
            terminated: Action::Capture,
            ..ReasonActions::default()
        };
        for (reason, own, shown) in [
            (Reason::Reused, Action::Redirect, "redirect"),
            (Reason::Reused, Action::Drop, "drop"),
            (Reason::Reused, Action::Unset, "reject"),
            (Reason::DeadBackend, Action::Unset, "drop"),
            (Reason::Terminated, Action::Unset, "capture"),
        ] {
            assert_eq!(action(own, reason, chosen), shown, "{reason:?}, {own:?}");
        }
    }
}
