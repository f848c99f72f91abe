//! The dump as tables for people.

use super::document::Dump;
use comfy_table::{Table, presets::NOTHING};
use std::net::SocketAddr;

impl Dump {
    /// All tables of the dump as text.
    #[must_use]
    pub fn tables(&self) -> String {
        let ranges = [("ONLY", &self.ranges.protect), ("NEVER", &self.ranges.exclude)]
            .into_iter()
            .filter(|(_, ranges)| !ranges.is_empty())
            .map(|(which, ranges)| format!("DENIED {which} IN: {}", ranges.join(", ")));
        let owners = ["IP", "UID", "POD", "GENERATION", "FLAGS"];
        let suspects = ["IP", "FLAGS", "DEAD POD"];
        let services = ["VIP", "PROTOCOL", "NUMBER", "SERVICE"];
        let denied = [
            "SERVICE", "ENDPOINT", "PROTOCOL", "REASON", "UID IS", "BOUND", "HELD", "ACTION", "MEANT", "HIT",
        ];
        let terminated = ["IP", "DEAD POD", "BOUND", "ACTION", "LIFTED"];
        let counters = ["REASON", "OUTCOME", "PACKETS", "BYTES"];
        let counted = self.counters.iter().filter(|r| r.packets > 0);
        let sections = [
            section("OWNERS", owners, &self.owners, |r| {
                let (ip, generation) = (r.ip.to_string(), r.generation.to_string());
                [ip, r.uid.clone(), text(r.pod.as_ref()), generation, r.flags.join(",")]
            }),
            section("SUSPECTS", suspects, &self.suspects, |r| {
                [r.ip.to_string(), r.flags.join(","), text(r.dead_pod.as_ref())]
            }),
            section("SERVICES", services, &self.services, |r| {
                let vip = SocketAddr::new(r.vip, r.port);
                [vip.to_string(), r.protocol.into(), r.number.to_string(), text(r.service.as_ref())]
            }),
            section("DENIED", denied, &self.denied, |r| {
                [
                    r.service.clone(),
                    SocketAddr::new(r.ip, r.port).to_string(),
                    r.protocol.into(),
                    r.reason.into(),
                    r.state.clone(),
                    r.bound.into(),
                    yes(r.held),
                    r.action.into(),
                    r.meant.clone(),
                    r.hit.clone(),
                ]
            }),
            section("TERMINATED", terminated, &self.terminated, |r| {
                let (ip, pod) = (r.ip.to_string(), text(r.dead_pod.as_ref()));
                [ip, pod, r.bound.into(), r.action.into(), yes(r.lifted)]
            }),
            section("COUNTERS", counters, counted, |r| {
                let (packets, bytes) = (r.packets.to_string(), r.bytes.to_string());
                [r.reason.into(), r.outcome.into(), packets, bytes]
            }),
        ];
        ranges.chain(sections).collect::<Vec<_>>().join("\n\n")
    }
}

fn text(value: Option<&String>) -> String {
    value.cloned().unwrap_or_else(|| "-".to_owned())
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

fn section<'a, R: 'a, const N: usize>(
    title: &str,
    header: [&str; N],
    rows: impl IntoIterator<Item = &'a R>,
    cells: fn(&R) -> [String; N],
) -> String {
    let rows: Vec<[String; N]> = rows.into_iter().map(cells).collect();
    if rows.is_empty() {
        return format!("{title}: empty");
    }
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(header).add_rows(&rows);
    format!("{title}: {}\n{table}", rows.len())
}
