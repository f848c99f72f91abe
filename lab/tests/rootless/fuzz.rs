//! Damaged scenario files: a readable error, and no panic.

use epguard_fuzz::{run, words};
use epguard_lab::scenario;
use std::path::Path;

const WORDS: &str = "id: title: must: agent: pods: services: steps: expect: call: sees: is: ip: { } [ ] X Y mode enforce node-a ~ null";
/// Words with spaces.
const SYNTAX: [&str; 9] = [
    "- ",
    "\n",
    "\n  ",
    "&a ",
    "*a",
    "!!binary ",
    "|\n",
    "\"",
    "<<: ",
];

#[test]
fn scenario_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect();
    let dictionary: Vec<&str> = words(WORDS).into_iter().chain(SYNTAX).collect();
    run("scenario", seeds, &dictionary, |text| {
        let _ = scenario::parse(&String::from_utf8_lossy(text), "story.yaml");
    });
}
