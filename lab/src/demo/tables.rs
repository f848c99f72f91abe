//! Tables: what the API holds, as `kubectl get` prints it, and who called and who answered.

use super::presenter::NAMESPACE;
use crate::api::Kind;
use crate::scenario::burst::{Played, milliseconds};
use crate::scenario::cluster::Cluster;
use crate::scenario::format::Group;
use crate::traffic::Outcome;
use comfy_table::modifiers::UTF8_ROUND_CORNERS;
use comfy_table::presets::{NOTHING, UTF8_FULL_CONDENSED};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Row, Table};
use serde_json::Value;

/// The story's pods with labels, then the first endpoint of each Service.
pub fn listing(cluster: &Cluster) -> String {
    let pods = cluster.store.list(Kind::Pod);
    let slices = cluster.store.list(Kind::EndpointSlice);
    pods.iter()
        .filter_map(pod)
        .chain(slices.iter().filter_map(endpoint))
        .collect()
}

fn pod(pod: &Value) -> Option<String> {
    let meta = &pod["metadata"];
    let status = &pod["status"];
    let namespace = meta["namespace"].as_str()?;
    let name = format!("{namespace}/{}", meta["name"].as_str()?);
    let labels = meta["labels"].as_object()?;
    if labels.is_empty() || namespace == NAMESPACE {
        return None;
    }
    Some(format!(
        "  pod     {name:<21}  {:<9} podIP {}\n",
        status["phase"].as_str()?,
        status["podIP"].as_str().unwrap_or("none yet")
    ))
}

fn endpoint(slice: &Value) -> Option<String> {
    let meta = &slice["metadata"];
    let endpoint = &slice["endpoints"][0];
    let service = meta["labels"]["kubernetes.io/service-name"].as_str()?;
    let name = format!("{}/{service}", meta["namespace"].as_str()?);
    let ready = if endpoint["conditions"]["ready"] == true {
        "ready"
    } else {
        "not ready"
    };
    Some(format!(
        "  Service {name:<21}  endpoint  {} (pod {}), {ready}\n",
        endpoint["addresses"][0].as_str()?,
        endpoint["targetRef"]["name"].as_str()?,
    ))
}

/// The table of the callers of each pod and their answers, act by act. Without lines where these
/// have no room, and in narrow columns where the words have none.
pub fn table(played: &[Played<'_>], width: usize) -> Table {
    let mut table = rows(played);
    table.load_preset(UTF8_FULL_CONDENSED);
    table.apply_modifier(UTF8_ROUND_CORNERS);
    let needed = table.lines().map(|line| line.chars().count()).max();
    if needed.is_some_and(|needed| needed > width) {
        table.load_preset(NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        for column in table.column_iter_mut() {
            column.set_padding((0, 1));
        }
    }
    table
}

fn rows(played: &[Played<'_>]) -> Table {
    let mut table = Table::new();
    let mut header = vec![
        "who called",
        "calls",
        "reply\nby A",
        "reply\nby B",
        "timed\nout",
        "refused",
    ];
    let has_other = has_other(played);
    if has_other {
        header.push("other");
    }
    header.push("median");
    table.set_header(header);
    for played in played {
        table.add_row([&played.burst.title]);
        for group in &played.burst.groups {
            table.add_row(row(played, group, has_other));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Whether a call ended in a way that has no column.
fn has_other(played: &[Played<'_>]) -> bool {
    let rows = played.iter().flat_map(|played| &played.answers);
    let mut answers = rows.flatten().flatten();
    answers.any(|answer| match &answer.outcome {
        Outcome::Reply(pod) => pod != "A" && pod != "B",
        Outcome::TimedOut | Outcome::Refused => false,
        _ => true,
    })
}

fn row(played: &Played<'_>, group: &Group, has_other: bool) -> Row {
    let mut calls = 0;
    let mut by_a = 0;
    let mut by_b = 0;
    let mut timed_out = 0;
    let mut refused = 0;
    let mut other = 0;
    for answer in played.of(group) {
        calls += 1;
        match &answer.outcome {
            Outcome::Reply(pod) if pod == "A" => by_a += 1,
            Outcome::Reply(pod) if pod == "B" => by_b += 1,
            Outcome::TimedOut => timed_out += 1,
            Outcome::Refused => refused += 1,
            _ => other += 1,
        }
    }
    let mut counts = vec![calls, by_a, by_b, timed_out, refused];
    if has_other {
        counts.push(other);
    }
    let mut row = vec![Cell::new(format!("  clients of {}", group.means))];
    for count in counts {
        row.push(match count {
            0 => Cell::new("·"),
            count => Cell::new(count),
        });
    }
    row.push(Cell::new(milliseconds(played.median(group))));
    row.into()
}
