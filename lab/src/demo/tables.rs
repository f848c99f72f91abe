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
    let (meta, status) = (&pod["metadata"], &pod["status"]);
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
    let (meta, endpoint) = (&slice["metadata"], &slice["endpoints"][0]);
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
    let count = |what: &dyn Fn(&Outcome) -> bool| {
        played
            .of(group)
            .filter(|answer| what(&answer.outcome))
            .count()
    };
    let by = |pod| count(&|outcome| matches!(outcome, Outcome::Reply(name) if name == pod));
    let (all, timed_out, refused) = (
        count(&|_| true),
        count(&|outcome| *outcome == Outcome::TimedOut),
        count(&|outcome| *outcome == Outcome::Refused),
    );
    let (a, b) = (by("A"), by("B"));
    let counts = [
        all,
        a,
        b,
        timed_out,
        refused,
        all - a - b - timed_out - refused,
    ];
    let numbers = counts.map(|number| {
        Cell::new(if number == 0 {
            "·".into()
        } else {
            number.to_string()
        })
    });
    let mut cells = vec![Cell::new(format!("  clients of {}", group.means))];
    cells.extend(numbers);
    cells.push(Cell::new(milliseconds(played.median(group))));
    cells.into()
}
