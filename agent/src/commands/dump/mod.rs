//! `epguard dump`: the maps with names, as far as the agent knows them.

mod document;

pub use document::{collect, pinned_denials, pinned_entries, pinned_services};

use crate::shared::args::{PinArgs, RunArgs};
use crate::shared::cards::table_or_cards;
use crate::shared::output::Output;
use crate::shared::screen::Screen;
use crate::shared::status;
use anyhow::Result;
use clap::Args;
use serde_json::Value;

/// Options of `epguard dump`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  epguard dump
  epguard dump -o json | jq .denied")]
pub struct DumpArgs {
    /// Form of the output
    #[arg(short, long, default_value = "table")]
    pub output: Output,
    /// Where the datapath is pinned.
    #[command(flatten)]
    pub pins: PinArgs,
    /// The agent's status socket.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Reads the pinned maps and prints them. Errors: no datapath is pinned there.
pub fn run(args: &DumpArgs) -> Result<()> {
    let names = status::current(&args.run.run_dir).unwrap_or_default();
    let dump = collect(&args.pins.pin_dir, &names)?;
    let text = |dump: &Value| tables_text(dump, Screen::of_output(false));
    println!("{}", args.output.text(&dump, text)?);
    Ok(())
}

/// The tables: name, and for each column its header and its fields, with what stands between them.
const TABLES: [(&str, &[(&str, &str)]); 6] = [
    (
        "owners",
        &[
            ("IP", "ip"),
            ("UID", "uid"),
            ("POD", "pod"),
            ("GENERATION", "generation"),
            ("FLAGS", "flags"),
        ],
    ),
    (
        "suspects",
        &[("IP", "ip"), ("FLAGS", "flags"), ("DEAD POD", "deadPod")],
    ),
    (
        "services",
        &[
            ("VIP", "vip:port"),
            ("PROTOCOL", "protocol"),
            ("NUMBER", "number"),
            ("SERVICE", "service"),
        ],
    ),
    (
        "denied",
        &[
            ("SERVICE", "service"),
            ("ENDPOINT", "ip:port"),
            ("PROTOCOL", "protocol"),
            ("REASON", "reason"),
            ("UID IS", "state"),
            ("BOUND", "bound"),
            ("STOPPED", "stopped"),
            ("ACTION", "action"),
            ("MEANT", "meant"),
            ("HIT", "hit"),
        ],
    ),
    (
        "terminated",
        &[
            ("IP", "ip"),
            ("DEAD POD", "deadPod"),
            ("BOUND", "bound"),
            ("ACTION", "action"),
            ("LIFTED", "lifted"),
        ],
    ),
    (
        "counters",
        &[
            ("REASON", "reason"),
            ("OUTCOME", "outcome"),
            ("PACKETS", "packets"),
            ("BYTES", "bytes"),
        ],
    ),
];

/// All tables of the dump as text.
fn tables_text(document: &Value, screen: Screen) -> String {
    let mut parts = Vec::new();
    for (which, field) in [("ONLY", "protect"), ("NEVER", "exclude")] {
        let ranges = cell_text(&document["ranges"][field]);
        if !ranges.is_empty() {
            let line = format!("DENIED {which} IN: {}", ranges.replace(',', ", "));
            parts.push(screen.fold(&line));
        }
    }
    for (name, columns) in TABLES {
        let title = name.to_uppercase();
        parts.push(table_text(screen, &title, columns, &document[name]));
    }
    parts.join("\n\n")
}

fn table_text(screen: Screen, title: &str, columns: &[(&str, &str)], rows: &Value) -> String {
    let rows = rows.as_array().into_iter().flatten();
    // Most counters are 0.
    let rows: Vec<&Value> = rows.filter(|row| row["packets"] != 0).collect();
    if rows.is_empty() {
        return format!("{title}: empty");
    }
    let header: Vec<&str> = columns.iter().map(|(header, _)| *header).collect();
    let mut cells = Vec::new();
    for row in &rows {
        cells.push(
            columns
                .iter()
                .map(|(_, fields)| cell(row, fields))
                .collect(),
        );
    }
    let table = table_or_cards(screen, &header, &cells);
    format!("{title}: {}\n{table}", rows.len())
}

/// A field, or the socket address of two.
fn cell(row: &Value, fields: &str) -> String {
    let Some((ip, port)) = fields.split_once(':') else {
        return cell_text(&row[fields]);
    };
    let ip = cell_text(&row[ip]);
    let host = if ip.contains(':') {
        format!("[{ip}]")
    } else {
        ip
    };
    format!("{host}:{}", row[port])
}

fn cell_text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell_text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::screen::{TESTED, assert_fits};
    use serde_json::json;

    fn dump() -> Value {
        json!({
            "ranges": {"protect": ["10.244.0.0/16", "10.245.0.0/16", "fd00:10:244::/48", "fd00:10:245::/48"]},
            "owners": [{
                "ip": "10.244.1.10",
                "uid": "6f1f2c7a-0d3e-4a53-9f0b-7d2c0a1b4e55",
                "pod": "payments/api-gateway-7c9f8d6b5-abcde",
                "generation": 7,
                "flags": ["draining", "conflict"],
            }],
            "denied": [{
                "service": "shop/web-frontend",
                "ip": "fd00:10:244:1::a",
                "port": 8080,
                "protocol": "TCP",
                "reason": "reused",
                "state": "dead",
                "bound": "enforce",
                "stopped": false,
                "action": "drop",
                "meant": "shop/web-frontend-5d4f8c7b9d-x2x4z",
                "hit": "payments/api-gateway-7c9f8d6b5-abcde",
            }],
        })
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        for width in TESTED {
            let width = Some(width);
            let screen = Screen { width, full: false };
            let text = tables_text(&dump(), screen);
            assert_fits(&text, screen);
            assert!(text.contains("[fd00:10:244:1::a]:8080\n"), "a card: {text}");
            assert!(text.contains("SUSPECTS: empty"), "{text}");
        }
    }

    #[test]
    fn a_script_gets_a_line_for_each_entry() {
        let text = tables_text(&dump(), Screen::default());
        let denied = "DENIED: 1\n SERVICE            ENDPOINT                 PROTOCOL ";
        assert!(text.contains(denied), "{text}");
        assert!(text.contains(" draining,conflict\n"), "{text}");
    }
}
