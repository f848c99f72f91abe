//! `epguard dump`: the maps with names, as far as the agent knows them.

use crate::cli::Output;
use crate::facts::Protocol;
use crate::maps;
use crate::status::{self, Status};
use anyhow::{Context as _, Result};
use aya::Pod;
use aya::maps::{HashMap, Map, MapData, PerCpuHashMap};
use comfy_table::{Table, presets::NOTHING};
use epguard_common::{Addr, Count, Counter, Denial, Owner, Slot, Suspect, Target, Uid, Vip};
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Reads the pinned maps and prints them.
pub fn dump(pin_dir: &Path, run_dir: &Path, output: Output) -> Result<()> {
    let names = status::read(run_dir).unwrap_or_default();
    let dump = Dump::read(pin_dir, &names)?;
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&dump)?),
        Output::Table => println!("{}", dump.tables()),
    }
    Ok(())
}

/// Everything there is to see, with names where a number or a UID stands in the maps.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dump {
    mode: String,
    owners: Vec<OwnerRow>,
    suspects: Vec<SuspectRow>,
    services: Vec<ServiceRow>,
    denied: Vec<DeniedRow>,
    counters: Vec<CounterRow>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnerRow {
    ip: IpAddr,
    uid: String,
    pod: Option<String>,
    generation: u64,
    flags: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SuspectRow {
    ip: IpAddr,
    flags: Vec<&'static str>,
    dead_pod: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceRow {
    vip: IpAddr,
    port: u16,
    protocol: &'static str,
    slot: u16,
    service: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeniedRow {
    service: String,
    ip: IpAddr,
    port: u16,
    protocol: &'static str,
    reason: &'static str,
    state: String,
    meant: String,
    hit: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CounterRow {
    reason: &'static str,
    outcome: &'static str,
    packets: u64,
    bytes: u64,
}

impl Dump {
    fn read(pin_dir: &Path, names: &Status) -> Result<Self> {
        let pod = |uid: Uid| match names.pods.get(&uid.to_string()) {
            _ if uid == Uid::NONE => None,
            Some(name) => Some(name.clone()),
            None => Some(uid.to_string()),
        };
        let service = |slot: Slot| names.services.get(&slot.number.to_string()).cloned();
        let owners = sorted(entries::<Addr, Owner>(pin_dir, "OWNERS")?, |(ip, owner)| {
            OwnerRow {
                ip: ip.ip(),
                uid: owner.uid.to_string(),
                pod: names.pods.get(&owner.uid.to_string()).cloned(),
                generation: owner.generation,
                flags: flags(
                    owner.flags,
                    &[(Owner::DRAINING, "draining"), (Owner::CONFLICT, "conflict")],
                ),
            }
        });
        let suspects = sorted(entries::<Addr, Suspect>(pin_dir, "SUSPECTS")?, |(ip, suspect)| {
            SuspectRow {
                ip: ip.ip(),
                flags: flags(
                    suspect.flags,
                    &[(Suspect::DENIED, "denied"), (Suspect::DRAINING, "draining")],
                ),
                dead_pod: pod(suspect.dead_uid),
            }
        });
        let services = sorted(entries::<Vip, Slot>(pin_dir, "SERVICES")?, |(vip, slot)| {
            ServiceRow {
                vip: vip.addr.ip(),
                port: vip.port,
                protocol: protocol(vip.protocol),
                slot: slot.number,
                service: service(slot),
            }
        });
        let denied = sorted(
            entries::<Target, Denial>(pin_dir, "DENIED")?,
            |(target, denial)| DeniedRow {
                service: service(target.slot).unwrap_or_else(|| format!("slot {}", target.slot.number)),
                ip: target.addr.ip(),
                port: target.port,
                protocol: protocol(target.protocol),
                reason: denial.reason.as_str(),
                state: format!("{:?}", denial.uid_state),
                meant: pod(denial.dead_uid).unwrap_or_default(),
                hit: pod(denial.owner_uid).unwrap_or_default(),
            },
        );
        Ok(Self {
            mode: names.mode.clone(),
            owners,
            suspects,
            services,
            denied,
            counters: counters(pin_dir)?,
        })
    }

    fn tables(&self) -> String {
        let owners = self.owners.iter().map(|r| {
            vec![
                r.ip.to_string(),
                r.uid.clone(),
                text(r.pod.as_ref()),
                r.generation.to_string(),
                r.flags.join(","),
            ]
        });
        let suspects = self
            .suspects
            .iter()
            .map(|r| vec![r.ip.to_string(), r.flags.join(","), text(r.dead_pod.as_ref())]);
        let services = self.services.iter().map(|r| {
            let vip = SocketAddr::new(r.vip, r.port).to_string();
            vec![
                vip,
                r.protocol.to_owned(),
                r.slot.to_string(),
                text(r.service.as_ref()),
            ]
        });
        let denied = self.denied.iter().map(|r| {
            let endpoint = SocketAddr::new(r.ip, r.port).to_string();
            let (meant, hit) = (r.meant.clone(), r.hit.clone());
            vec![
                r.service.clone(),
                endpoint,
                r.protocol.to_owned(),
                r.reason.to_owned(),
                r.state.clone(),
                meant,
                hit,
            ]
        });
        let counters = self.counters.iter().filter(|r| r.packets > 0).map(|r| {
            vec![
                r.reason.to_owned(),
                r.outcome.to_owned(),
                r.packets.to_string(),
                r.bytes.to_string(),
            ]
        });
        [
            section("OWNERS", &["IP", "UID", "POD", "GENERATION", "FLAGS"], owners),
            section("SUSPECTS", &["IP", "FLAGS", "DEAD POD"], suspects),
            section("SERVICES", &["VIP", "PROTOCOL", "SLOT", "SERVICE"], services),
            section(
                "DENIED",
                &[
                    "SERVICE", "ENDPOINT", "PROTOCOL", "REASON", "UID IS", "MEANT", "HIT",
                ],
                denied,
            ),
            section("COUNTERS", &["REASON", "OUTCOME", "PACKETS", "BYTES"], counters),
        ]
        .join("\n\n")
    }
}

fn counters(pin_dir: &Path) -> Result<Vec<CounterRow>> {
    let map = Map::PerCpuHashMap(maps::open(pin_dir, "COUNTERS")?);
    let map: PerCpuHashMap<MapData, Counter, Count> =
        map.try_into().context("COUNTERS has another layout")?;
    let mut counts = map
        .iter()
        .collect::<Result<Vec<_>, _>>()
        .context("cannot read COUNTERS")?;
    counts.sort_by_key(|(counter, _)| *counter);
    let row = |(counter, cpus): (Counter, aya::maps::PerCpuValues<Count>)| CounterRow {
        reason: counter.reason.as_str(),
        outcome: counter.outcome.as_str(),
        packets: cpus.iter().map(|count| count.packets).sum(),
        bytes: cpus.iter().map(|count| count.bytes).sum(),
    };
    Ok(counts.into_iter().map(row).collect())
}

/// All entries of a pinned hash map.
pub fn entries<K: Pod + Ord, V: Pod>(pin_dir: &Path, name: &str) -> Result<Vec<(K, V)>> {
    let map: HashMap<MapData, K, V> = Map::HashMap(maps::open(pin_dir, name)?)
        .try_into()
        .with_context(|| format!("{name} has another layout"))?;
    map.iter()
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("cannot read {name}"))
}

fn sorted<K: Ord + Copy, V, R>(mut entries: Vec<(K, V)>, row: impl FnMut((K, V)) -> R) -> Vec<R> {
    entries.sort_by_key(|(key, _)| *key);
    entries.into_iter().map(row).collect()
}

fn flags(bits: u32, names: &[(u32, &'static str)]) -> Vec<&'static str> {
    names
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, name)| *name)
        .collect()
}

fn protocol(number: u8) -> &'static str {
    Protocol::from_number(number).map_or("?", Protocol::as_str)
}

fn text(value: Option<&String>) -> String {
    value.cloned().unwrap_or_else(|| "-".to_owned())
}

fn section(title: &str, header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(header).add_rows(rows);
    let rows = table.row_iter().count();
    if rows == 0 {
        format!("{title}: empty")
    } else {
        format!("{title}: {rows}\n{table}")
    }
}
