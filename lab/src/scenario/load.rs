//! Reads a YAML file into a [`Scenario`]. Every error of its form names the file, the line and the correct form.
//!
//! Names of the story are looked up when a step uses them: its failure names the file and the line, too.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};

use super::format::Scenario;

/// Words in `sees` and `from` that are not names of pods.
const RESERVED: [&str; 6] = ["nothing", "refused", "reset", "node-a", "external", "client"];

/// Reads a scenario.
pub fn load(path: &Path) -> Result<Scenario> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text, &path.display().to_string())
}

/// Parses a scenario; `file` is for messages. Errors: its form, and mistakes that no step would meet.
pub fn parse(text: &str, file: &str) -> Result<Scenario> {
    let scenario: Scenario = serde_saphyr::from_str(text).map_err(|error| {
        let message = error.without_snippet().to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        match error.location() {
            Some(at) => anyhow!("{file}:{}:{}: {message}", at.line(), at.column()),
            None => anyhow!("{file}: {message}"),
        }
    })?;
    let runs = &scenario.runs;
    let variants = [runs.family.len(), runs.caller.len(), runs.cni.len(), runs.overlay.len()];
    ensure!(!variants.contains(&0), "{file}: `runs` has an empty list, so that the story would never run");
    ensure!(!scenario.steps.is_empty(), "{file}: the story has no steps");
    ensure!(
        scenario.neighbour.is_some() || runs.place.is_empty(),
        "{file}: `runs` varies a neighbour, and the story has no `neighbour`"
    );
    let reserved = RESERVED.iter().find(|word| scenario.pods.contains_key(**word));
    ensure!(reserved.is_none(), "{file}: no pod can have one of these names: {}", RESERVED.join(", "));
    Ok(scenario)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::format::Step;

    const STORY: &str = "
id: s
title: t
must: m
pods:
  A: {is: ns/a, ip: X}
services:
  ns/s: {}
steps:
  - pods: [A starts]
  - check:
      - {call: ns/s, sees: A}
";

    #[test]
    fn entries_that_must_be_absent_must_stay_absent_for_a_second() {
        let hold = |entries: &str| {
            let story = STORY.replace("  - check:", &format!("  - maps: {{DENIED: {entries}}}\n  - check:"));
            match &parse(&story, "story.yaml").unwrap().steps[1].value {
                Step::Maps(maps) => maps["DENIED"].hold().as_secs_f32(),
                other => panic!("{other:?}"),
            }
        };
        for (entries, seconds) in [
            ("{count: 0}", 1.0),
            ("{lacks: [{mode: 2}]}", 1.0),
            ("{count: 0, for: 2.5}", 2.5),
            ("{count: 1}", 0.0),
            ("{has: [{mode: 2}], count: 1, lacks: [{mode: 1}]}", 0.0),
            ("{has: [{mode: 2}], for: 3}", 3.0),
        ] {
            assert!((hold(entries) - seconds).abs() < 0.01, "{entries}");
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_place_and_the_words_there_are() {
        assert_eq!(parse(STORY, "story.yaml").unwrap().steps.len(), 2);
        for (from, to, parts) in [
            (
                "ns/s: {}",
                "ns/s: {selektor: {app: a}}",
                &["selektor", "story.yaml:8:10", "selector", "publish-not-ready-addresses"][..],
            ),
            ("A starts", "A explodes", &["story.yaml", "explodes", "succeeds", "force-deleted"]),
            ("  A: {", "  nothing: {", &["story.yaml", "no pod can have"]),
            ("must: m", "must: m\nruns: {family: []}", &["story.yaml", "never run"]),
        ] {
            assert!(STORY.contains(from), "{from:?} is not in the story");
            let error = format!("{:#}", parse(&STORY.replace(from, to), "story.yaml").unwrap_err());
            for part in parts {
                assert!(error.contains(part), "{part} is missing in: {error}");
            }
        }
    }
}
