//! The rows of the table: flows, or the sums of each Service's flows. Pure.

use super::columns::{self, Column, Form, column};
use super::controls::Sort;
use super::model::Model;
use super::rates::{Rate, shown};
use crate::commands::drops::{self, ago};
use crate::shared::drops::{Dropped, Kind};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// A row for each flow.
const FLOWS: [Column; 9] = [
    column("RATE/S", Form::Number, 0),
    column("SERVICE", Form::Name, 1),
    column("ENDPOINT", Form::Word, 8),
    column("REASON", Form::Word, 4),
    column("OUTCOME", Form::Word, 7),
    column("MEANT", Form::Name, 2),
    column("HIT", Form::Name, 3),
    column("PACKETS", Form::Number, 6),
    column("LAST", Form::Number, 5),
];

/// A row for each Service.
const SERVICES: [Column; 7] = [
    column("RATE/S", Form::Number, 0),
    column("SERVICE", Form::Name, 1),
    column("ENDPOINTS", Form::Number, 5),
    column("FLOWS", Form::Number, 6),
    column("REASONS", Form::Name, 4),
    column("PACKETS", Form::Number, 3),
    column("LAST", Form::Number, 2),
];

/// A row of the table.
#[derive(Debug)]
pub(super) struct Row {
    rate: Option<Rate>,
    packets: u64,
    last_ms_ago: u64,
    /// In the order of the columns.
    cells: Vec<String>,
}

impl Row {
    /// Whether no packet came since the last refresh.
    pub(super) fn is_idle(&self) -> bool {
        self.rate.is_none_or(|rate| rate == Rate::default())
    }
}

/// Rows in the chosen order.
#[derive(Debug)]
pub(super) struct Rows {
    columns: &'static [Column],
    narrowed: bool,
    pub(super) all: Vec<Row>,
}

impl Rows {
    /// Titles and rows, in at most `width` characters; without rows, one line of text in their place.
    pub(super) fn lines(&self, width: usize) -> (String, Vec<String>) {
        let cells: Vec<&[String]> = self.all.iter().map(|row| row.cells.as_slice()).collect();
        let (titles, mut lines) = columns::lines(self.columns, &cells, width);
        if lines.is_empty() {
            lines.push(drops::nothing(self.narrowed));
        }
        (titles, lines)
    }
}

/// The rows of the table that the operator chose.
pub(super) fn rows(model: &Model) -> Rows {
    let (columns, mut all): (&[Column], Vec<Row>) = if model.controls.services {
        let mut services: BTreeMap<&str, Vec<&Dropped>> = BTreeMap::new();
        for flow in &model.agent.drops {
            services.entry(&flow.kind.service).or_default().push(flow);
        }
        let rows = services
            .values()
            .map(|flows| row(model, flows, of_service(flows)));
        (&SERVICES, rows.collect())
    } else {
        let rows = model
            .agent
            .drops
            .iter()
            .map(|flow| row(model, &[flow], of_flow(&flow.kind)));
        (&FLOWS, rows.collect())
    };
    all.sort_by(|a, b| order(model.controls.sort, a, b));
    Rows {
        columns,
        narrowed: model.agent.narrowed,
        all,
    }
}

/// Compares rows. Those equal by the chosen measure stay where they are from one refresh to the next.
fn order(by: Sort, a: &Row, b: &Row) -> Ordering {
    let chosen = match by {
        Sort::Rate => b.rate.cmp(&a.rate),
        Sort::Total => b.packets.cmp(&a.packets),
        Sort::Last => a.last_ms_ago.cmp(&b.last_ms_ago),
    };
    let packets = b.packets.cmp(&a.packets);
    chosen.then(packets).then_with(|| a.cells[1..].cmp(&b.cells[1..]))
}

/// A row for these flows; `words` are the cells between rate and packets.
fn row(model: &Model, flows: &[&Dropped], words: Vec<String>) -> Row {
    let rate: Option<Rate> = flows.iter().map(|flow| model.flows.rate(&flow.kind)).sum();
    let packets: u64 = flows.iter().map(|flow| flow.packets).sum();
    let last_ms_ago = flows
        .iter()
        .map(|flow| flow.last_ms_ago)
        .min()
        .unwrap_or_default();
    let numbers = vec![packets.to_string(), ago(last_ms_ago)];
    let cells = [vec![shown(rate)], words, numbers].concat();
    Row {
        rate,
        packets,
        last_ms_ago,
        cells,
    }
}

/// The cells between rate and packets, for a flow.
fn of_flow(kind: &Kind) -> Vec<String> {
    vec![
        kind.service.clone(),
        format!("{} {}", kind.endpoint, kind.protocol),
        kind.reason.to_string(),
        kind.outcome.to_string(),
        kind.meant.clone(),
        kind.hit.clone(),
    ]
}

/// The cells between rate and packets, for a Service.
fn of_service(flows: &[&Dropped]) -> Vec<String> {
    let service = flows.first().map(|flow| flow.kind.service.clone());
    let endpoints: BTreeSet<_> = flows.iter().map(|flow| flow.kind.endpoint).collect();
    let reasons: BTreeSet<&str> = flows.iter().map(|flow| flow.kind.reason.as_str()).collect();
    vec![
        service.unwrap_or_default(),
        endpoints.len().to_string(),
        flows.len().to_string(),
        reasons.into_iter().collect::<Vec<_>>().join(","),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::view::fixture::model;
    use super::*;

    fn services(model: &Model) -> Vec<String> {
        let rows = rows(model).all;
        rows.iter().map(|row| row.cells[1].clone()).collect()
    }

    #[test]
    fn flows_are_sorted_by_rate_or_packets_or_time() {
        let mut model = model();
        assert_eq!(services(&model), ["shop/web", "shop/api", "shop/web", "unknown"]);
        model.controls.sort = Sort::Total;
        assert_eq!(services(&model), ["shop/api", "shop/web", "shop/web", "unknown"]);
        model.controls.sort = Sort::Last;
        assert_eq!(services(&model), ["shop/web", "shop/web", "shop/api", "unknown"]);
    }

    #[test]
    fn a_service_has_the_sum_of_its_flows_and_the_latest_time() {
        let mut model = model();
        model.controls.services = true;
        let rows = rows(&model).all;
        let cells: Vec<String> = rows.iter().map(|row| row.cells.join(" ")).collect();
        assert_eq!(
            cells,
            [
                "12.0 shop/web 2 2 dead-backend,reused 23 0s",
                "2.0 shop/api 1 1 dead-backend 500 4s",
                "0.0 unknown 1 1 terminated 1 2m"
            ]
        );
    }

    #[test]
    fn before_the_second_sample_no_rate_is_shown() {
        let mut model = model();
        model.flows.missed();
        let rows = rows(&model).all;
        assert!(rows.iter().all(|row| row.cells[0] == "-" && row.is_idle()));
    }
}
