//! The tables: a row for each scene.

use super::capacity::as_f64;
use super::form::{Better, Comparison, Row, Table};
use super::scenes::{AFTER, FACTOR, Played, Scene, TENANT};
use super::size::Size;
use std::time::Duration;

/// Within this time the requests come at the rate at rest again.
const SETTLED: Duration = Duration::from_mins(2);

type Rows = fn(&Played, &Scene) -> Vec<Row>;

pub(crate) fn tables(size: Size, played: &Played) -> Vec<Table> {
    let parts: [(&str, &str, &str, Rows); 4] = [
        ("requests", "Requests", "requests/s", requests),
        ("octets", "Answers", "MB/s", octets),
        ("delays", "Delays", "s", delays),
        ("counts", "Counts", "in all", counts),
    ];
    let tables = parts.map(|(name, title, unit, rows)| Table {
        name: format!("fleet-{name}"),
        title: format!("{title}, {} agents, {} pods", size.nodes, size.pods),
        unit: unit.to_owned(),
        better: Better::Lower,
        notes: Vec::new(),
        rows: played
            .scenes
            .iter()
            .flat_map(|scene| rows(played, scene))
            .collect(),
    });
    tables.into()
}

fn requests(played: &Played, scene: &Scene) -> Vec<Row> {
    let [rest, _] = played.rest;
    let [after, _] = scene.after;
    vec![
        of(scene, "mean", scene.mean[0]),
        of(scene, "busiest second", scene.peak[0]),
        of(scene, "busiest second afterwards", scene.peak_after[0]),
        of(scene, "afterwards", after).compare(at_most(after / rest, FACTOR, format!("at rest, {rest:.1}"))),
    ]
}

fn octets(played: &Played, scene: &Scene) -> Vec<Row> {
    let [_, rest] = played.rest;
    let [_, after] = scene.after;
    let compare = Comparison {
        ratios: Some(vec![after / rest]),
        ..Comparison::with(format!("at rest, {:.2}", rest / 1e6))
    };
    vec![
        of(scene, "mean", scene.mean[1] / 1e6),
        of(scene, "busiest second", scene.peak[1] / 1e6),
        of(scene, "afterwards", after / 1e6).compare(compare),
    ]
}

fn delays(played: &Played, scene: &Scene) -> Vec<Row> {
    let settled = scene.settled(played).unwrap_or(AFTER).as_secs_f64();
    let limit = SETTLED.as_secs_f64();
    vec![
        of(scene, "longest without a lease", scene.lapse.as_secs_f64()),
        of(scene, "oldest view", scene.oldest.as_secs_f64()),
        of(scene, "until at rest again", settled).compare(at_most(
            settled / limit,
            1.0,
            format!("at most {limit}"),
        )),
    ]
}

fn counts(_: &Played, scene: &Scene) -> Vec<Row> {
    let none = |count: usize| at_most(as_f64(count), 0.0, "none".to_owned());
    let whole = of(scene, "whole collections read", as_f64(scene.whole));
    let ended = of(scene, "healthy watches ended", as_f64(scene.ended));
    vec![
        of(scene, "watches broken by the server", as_f64(scene.broken)),
        ended.compare(none(scene.ended)),
        of(scene, "requests refused with 429", as_f64(scene.refused)),
        if scene.name == TENANT {
            whole.compare(none(scene.whole))
        } else {
            whole
        },
    ]
}

fn of(scene: &Scene, name: &str, sample: f64) -> Row {
    Row::new(scene.name, name, vec![sample])
}

fn at_most(ratio: f64, most: f64, peer: String) -> Comparison {
    Comparison {
        ratios: Some(vec![ratio]),
        at_most: Some(most),
        ..Comparison::with(peer)
    }
}
