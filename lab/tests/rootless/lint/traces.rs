//! The findings of lint on a recorded cluster at chosen times, compared as a whole with `traces.txt` beside this file.
//! A section of it begins with `== RECORDING at MS ms`. To write it anew: `EPGUARD_WRITE_GOLDEN=1`, then read the diff.

use epguard::commands::lint::{Listed, Report, findings};
use epguard_core::facts::Object;
use epguard_lab::replay::recording::{Recording, What};
use epguard_lab::replay::stream::{Kind, Listed as Objects};
use std::path::Path;
use std::time::Duration;

/// The contents of each collection at a time.
fn listed(recording: &Recording, at: Duration) -> Listed {
    let mut objects = Objects::default();
    for (_, what) in recording.instants.iter().take_while(|(then, _)| *then <= at) {
        if let What::Api(event) = what {
            objects.apply(event);
        }
    }
    Listed {
        slices: parsed(&objects, Kind::EndpointSlice),
        services: parsed(&objects, Kind::Service),
        pods: parsed(&objects, Kind::Pod),
        nodes: parsed(&objects, Kind::Node),
    }
}

fn parsed<O: Object>(objects: &Objects, kind: Kind) -> Vec<O> {
    objects.of(kind).map(|object| O::parse(object.to_string().as_bytes()).unwrap()).collect()
}

#[test]
fn every_recording_is_described_as_it_was_at_each_chosen_time() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = here.join("tests/rootless/lint/traces.txt");
    let expected = std::fs::read_to_string(&golden).unwrap();
    let mut found = String::new();
    for header in expected.lines().filter_map(|line| line.strip_prefix("== ")) {
        let (name, ms) = header.strip_suffix(" ms").unwrap().split_once(" at ").unwrap();
        let recording = Recording::read(&here.join("traces").join(name)).unwrap();
        let listed = listed(&recording, Duration::from_millis(ms.parse().unwrap()));
        let report = Report {
            slices: listed.slices.len(),
            pods: listed.pods.len(),
            findings: findings(&listed, None),
            unchecked: vec![],
        };
        let section = format!("== {header}\n{}\n\n", report.text());
        let writing = std::env::var_os("EPGUARD_WRITE_GOLDEN").is_some();
        assert!(writing || expected.contains(&section), "not expected:\n{section}");
        found.push_str(&section);
    }
    if std::env::var_os("EPGUARD_WRITE_GOLDEN").is_some() {
        std::fs::write(&golden, &found).unwrap();
    }
    assert_eq!(found, expected);
}

#[test]
fn every_recording_is_in_the_golden_file() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let expected = std::fs::read_to_string(here.join("tests/rootless/lint/traces.txt")).unwrap();
    for entry in std::fs::read_dir(here.join("traces")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || expected.contains(&format!("== {name} at ")), "{name}");
    }
}
