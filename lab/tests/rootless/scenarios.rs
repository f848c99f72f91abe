//! The stories that are shipped, and the one in their documentation.

use std::fs;
use std::path::Path;

use epguard_lab::scenario::{load, parse};

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))
}

fn at_sockets() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios-at-sockets"))
}

#[test]
fn every_file_has_the_name_of_its_scenario() {
    for file in [folder(), at_sockets()]
        .into_iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
    {
        let file = file.unwrap().path();
        assert_eq!(
            file.file_stem().unwrap().to_str().unwrap(),
            load(&file).unwrap().id
        );
    }
}

#[test]
fn each_story_at_sockets_makes_a_call_that_is_denied_and_one_that_passes() {
    for file in fs::read_dir(at_sockets()).unwrap() {
        let file = file.unwrap().path();
        let scenario = load(&file).unwrap();
        assert!(scenario.runs.has_socket_lb(), "{}", scenario.id);
        let calls = || {
            scenario
                .steps
                .iter()
                .flat_map(|step| step.value.calls().calls)
        };
        for is_denied in [true, false] {
            // Without epguard the stranger answers it.
            let mut of_stranger = calls().filter(|call| call.value.sees.allowed() == ["B"]);
            assert!(
                of_stranger.any(|call| call.value.denied.is_some() == is_denied),
                "{}",
                scenario.id
            );
        }
    }
}

#[test]
fn the_scenario_in_the_documentation_runs() {
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
fn the_documentation_has_every_word_that_error_messages_list() {
    let text = fs::read_to_string(folder().parent().unwrap().join("SCENARIOS.md")).unwrap();
    let story = "id: s\ntitle: t\nmust: m\npods: {A: {is: a/b}}\nsteps:\n  - STEP\n";
    let wrong = [
        "pods: [A bogus]",
        "slices: {a/b: {A: bogus}}",
        "bogus: 1",
        "check: [{bogus: 1}]",
    ];
    for step in wrong {
        let error = format!(
            "{:#}",
            parse(&story.replace("STEP", step), "s.yaml").unwrap_err()
        );
        let list = error.split_once("expected one of ").unwrap().1;
        let words: Vec<&str> = list.split(", ").collect();
        assert!(words.len() >= 5, "{error}");
        for word in words {
            assert!(text.contains(word), "{word} is not documented");
        }
    }
}
