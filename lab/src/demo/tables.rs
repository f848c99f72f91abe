//! Tables: what the API holds, as `kubectl get` prints it, and who called and who answered.

use crate::api::Kind;
use crate::scenario::burst::{Played, milliseconds};
use crate::scenario::cluster::Cluster;
use crate::scenario::format::Group;
use crate::traffic::Outcome;
use comfy_table::modifiers::UTF8_ROUND_CORNERS;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Row, Table};
use serde_json::Value;

/// Pods with labels, then the first endpoint of each Service.
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
    let name = format!("{}/{}", meta["namespace"].as_str()?, meta["name"].as_str()?);
    meta["labels"]
        .as_object()
        .filter(|labels| !labels.is_empty())?;
    Some(format!(
        "    pod       {name:<22} {:<10} podIP {}\n",
        status["phase"].as_str()?,
        status["podIP"].as_str().unwrap_or("none yet")
    ))
}

fn endpoint(slice: &Value) -> Option<String> {
    let meta = &slice["metadata"];
    let endpoint = &slice["endpoints"][0];
    let service = meta["labels"]["kubernetes.io/service-name"].as_str()?;
    let name = format!("{}/{service}", meta["namespace"].as_str()?);
    Some(format!(
        "    Service   {name:<22} endpoint   {} (pod {}), ready: {}\n",
        endpoint["addresses"][0].as_str()?,
        endpoint["targetRef"]["name"].as_str()?,
        endpoint["conditions"]["ready"]
    ))
}

/// The table of the callers of each pod and their answers, act by act.
pub fn table(played: &[Played<'_>]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.apply_modifier(UTF8_ROUND_CORNERS);
    table.set_header([
        "who called",
        "calls",
        "reply\nby A",
        "reply\nby B",
        "timed\nout",
        "refused",
        "other",
        "median",
    ]);
    for played in played {
        table.add_row([&played.burst.title]);
        for group in &played.burst.groups {
            table.add_row(row(played, group));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(played: &Played<'_>, group: &Group) -> Row {
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
    let mut row = vec![Cell::new(format!("  clients of {}", group.means))];
    for count in [calls, by_a, by_b, timed_out, refused, other] {
        row.push(match count {
            0 => Cell::new("·"),
            count => Cell::new(count),
        });
    }
    row.push(Cell::new(milliseconds(played.median(group))));
    row.into()
}
