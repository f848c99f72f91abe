//! The dump as tables for people.

use super::document::Dump;
use comfy_table::{Table, presets::NOTHING};
use std::net::SocketAddr;

impl Dump {
    /// All tables of the dump as text.
    #[must_use]
    pub fn tables(&self) -> String {
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
                r.bound.to_owned(),
                if r.held { "yes" } else { "no" }.to_owned(),
                r.action.to_owned(),
                meant,
                hit,
            ]
        });
        let terminated = self.terminated.iter().map(|r| {
            let lifted = if r.lifted { "yes" } else { "no" };
            vec![
                r.ip.to_string(),
                text(r.dead_pod.as_ref()),
                r.bound.to_owned(),
                r.action.to_owned(),
                lifted.to_owned(),
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
        let ranges = [("ONLY", &self.ranges.protect), ("NEVER", &self.ranges.exclude)]
            .into_iter()
            .filter(|(_, ranges)| !ranges.is_empty())
            .map(|(which, ranges)| format!("DENIED {which} IN: {}", ranges.join(", ")));
        let sections = [
            section("OWNERS", &["IP", "UID", "POD", "GENERATION", "FLAGS"], owners),
            section("SUSPECTS", &["IP", "FLAGS", "DEAD POD"], suspects),
            section("SERVICES", &["VIP", "PROTOCOL", "SLOT", "SERVICE"], services),
            section(
                "DENIED",
                &[
                    "SERVICE", "ENDPOINT", "PROTOCOL", "REASON", "UID IS", "BOUND", "HELD", "ACTION",
                    "MEANT", "HIT",
                ],
                denied,
            ),
            section(
                "TERMINATED",
                &["IP", "DEAD POD", "BOUND", "ACTION", "LIFTED"],
                terminated,
            ),
            section("COUNTERS", &["REASON", "OUTCOME", "PACKETS", "BYTES"], counters),
        ];
        ranges.chain(sections).collect::<Vec<_>>().join("\n\n")
    }
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
