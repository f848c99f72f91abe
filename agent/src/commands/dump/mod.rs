//! `epguard dump`: the maps with names, as far as the agent knows them.

mod document;

pub use document::{collect, pinned_denials, pinned_entries, pinned_services};

use crate::shared::args::{PinArgs, RunArgs};
use crate::shared::output::{Output, table};
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
    println!("{}", args.output.text(&dump, tables_text)?);
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
fn tables_text(document: &Value) -> String {
    let mut parts = Vec::new();
    for (which, field) in [("ONLY", "protect"), ("NEVER", "exclude")] {
        let ranges = cell_text(&document["ranges"][field]);
        if !ranges.is_empty() {
            parts.push(format!("DENIED {which} IN: {}", ranges.replace(',', ", ")));
        }
    }
    for (name, columns) in TABLES {
        parts.push(table_text(name, columns, &document[name]));
    }
    parts.join("\n\n")
}

fn table_text(name: &str, columns: &[(&str, &str)], rows: &Value) -> String {
    let rows = rows.as_array().into_iter().flatten();
    // Most counters are 0.
    let rows: Vec<&Value> = rows.filter(|row| row["packets"] != 0).collect();
    let title = name.to_uppercase();
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
    format!("{title}: {}\n{}", rows.len(), table(&header, cells))
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
