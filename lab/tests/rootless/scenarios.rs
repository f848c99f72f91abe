//! The stories that are shipped, and the one in their documentation.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use epguard_lab::scenario::{load, parse};

/// Stories that must be among the scenarios.
const STORIES: [&str; 19] = [
    "reused-across-namespaces",
    "finished-job-still-listed",
    "terminated-still-listed",
    "draining-node",
    "unready-while-terminating",
    "failed-but-ready",
    "force-deleted-zombie",
    "pending-without-ip",
    "same-deployment-reuse",
    "statefulset-same-name",
    "duplicate-live-ip",
    "same-uid-new-ip",
    "mirror-pod-deleted",
    "slice-lag",
    "late-delete",
    "port-reuse-same-client",
    "udp-blackhole",
    "custom-slice",
    "api-outage",
];

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))
}

#[test]
fn every_story_of_the_design_is_there_and_every_file_is_named_like_its_story() {
    let mut told = BTreeSet::new();
    for file in fs::read_dir(folder()).unwrap() {
        let file = file.unwrap().path();
        let scenario = load(&file).unwrap();
        assert_eq!(file.file_stem().unwrap().to_str().unwrap(), scenario.id);
        told.insert(scenario.id);
    }
    for story in STORIES {
        assert!(told.contains(story), "nobody tells {story}");
    }
}

#[test]
fn the_story_in_the_documentation_can_be_told() {
    let text = fs::read_to_string(folder().parent().unwrap().join("SCENARIOS.md")).unwrap();
    let story = text
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    assert_eq!(parse(story, "SCENARIOS.md").unwrap().id, "reused");
}

#[test]
fn the_documentation_knows_every_word_that_a_wrong_one_is_told_of() {
    let text = fs::read_to_string(folder().parent().unwrap().join("SCENARIOS.md")).unwrap();
    let story = "id: s\ntitle: t\nmust: m\npods: {A: {is: a/b}}\nsteps:\n  - STEP\n";
    let wrong = [
        "pods: [A bogus]",
        "slices: {a/b: {A: bogus}}",
        "bogus: 1",
        "check: [{bogus: 1}]",
    ];
    for step in wrong {
        let error = format!("{:#}", parse(&story.replace("STEP", step), "s.yaml").unwrap_err());
        let list = error.split_once("expected one of ").unwrap().1;
        let words: Vec<&str> = list.split(", ").collect();
        assert!(words.len() >= 5, "{error}");
        for word in words {
            assert!(text.contains(word), "{word} is not documented");
        }
    }
}
