//! The form of the Grafana dashboard. Its numbers are tested beside a Prometheus, in
//! `lab/tests/agent/dashboard`.

use super::alerts::check_runbook;
use super::text;
use serde_json::Value;
use std::collections::BTreeSet;

/// Columns of Grafana's grid.
const WIDTH: u64 = 24;

fn dashboard() -> Value {
    serde_json::from_str(&text("chart/files/dashboard.json")).unwrap()
}

fn panels() -> Vec<Value> {
    dashboard()["panels"].as_array().unwrap().clone()
}

/// Panels that are no headings.
fn charts() -> Vec<Value> {
    let panels = panels().into_iter();
    panels.filter(|panel| panel["type"] != "row").collect()
}

#[test]
fn every_panel_has_a_title_a_description_and_a_unit_and_links_to_headings_that_exist() {
    for panel in charts() {
        let title = panel["title"].as_str().unwrap();
        assert!(
            panel["description"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{title}"
        );
        assert!(
            panel["fieldConfig"]["defaults"]["unit"].is_string(),
            "{title} has no unit"
        );
        for link in panel["links"].as_array().into_iter().flatten() {
            check_runbook(link["url"].as_str().unwrap());
        }
    }
}

#[test]
fn every_query_is_narrowed_by_every_variable() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<&str> = variables
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["datasource", "cluster", "job", "node"]);
    let mut queries: Vec<Value> = dashboard["annotations"]["list"].as_array().unwrap().clone();
    for panel in charts() {
        queries.extend(panel["targets"].as_array().unwrap().clone());
    }
    for query in &queries {
        let expression = query["expr"].as_str().unwrap();
        let selectors = expression.matches('{').count();
        assert!(selectors > 0, "{expression}");
        let narrowed = expression
            .matches(r#"cluster=~"$cluster",job=~"$job",node=~"$node"}"#)
            .count();
        assert_eq!(narrowed, selectors, "{expression}");
    }
}

#[test]
fn no_two_panels_have_one_id_or_one_place_and_none_has_a_gap_above() {
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    let mut height = 0;
    for panel in panels() {
        assert!(
            ids.insert(panel["id"].as_u64().unwrap()),
            "{}",
            panel["title"]
        );
        for x in side(&panel, "x")..side(&panel, "x") + side(&panel, "w") {
            for y in side(&panel, "y")..side(&panel, "y") + side(&panel, "h") {
                assert!(
                    taken.insert((x, y)),
                    "{} is over another panel",
                    panel["title"]
                );
            }
        }
        height = height.max(side(&panel, "y") + side(&panel, "h"));
    }
    let whole: BTreeSet<(u64, u64)> = (0..WIDTH)
        .flat_map(|x| (0..height).map(move |y| (x, y)))
        .collect();
    assert_eq!(taken, whole);
}

/// A place or size of a panel: `x`, `y`, `w`, `h`.
fn side(panel: &Value, name: &str) -> u64 {
    panel["gridPos"][name].as_u64().unwrap()
}

/// Where a number must be 0, it is green at 0 and red from 1 on.
#[test]
fn wrong_denials_and_nodes_without_a_lease_are_green_at_0_and_red_at_1() {
    for title in ["Wrong denials", "Demoted", "Without lease"] {
        let charts = charts();
        let panel = charts.iter().find(|panel| panel["title"] == title).unwrap();
        let steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
            .as_array()
            .unwrap();
        let colors: Vec<(&str, Option<u64>)> = steps
            .iter()
            .map(|step| (step["color"].as_str().unwrap(), step["value"].as_u64()))
            .collect();
        assert_eq!(colors, [("green", None), ("red", Some(1))], "{title}");
    }
}
