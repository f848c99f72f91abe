//! The demo: kubernetes #109414, before and after, for a reader who knows Kubernetes and not
//! epguard.
//!
//! The story is a scenario, `scenarios/demo.yaml`. `presenter` shows it while it is played:
//! `tables` what the API holds and what the callers saw, `maps` what the kernel holds; `screen`
//! prints.

mod maps;
mod presenter;
mod screen;
mod tables;

use std::process::ExitCode;

use anyhow::Result;

use crate::scenario::{self, variant::Variant};

const STORY: &str = include_str!("../../scenarios/demo.yaml");

/// Show what epguard is for: a Service whose clients are answered by another team's pod
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the demo; an error if a claim did not hold. Needs root.
pub fn run(_: &Args) -> Result<ExitCode> {
    let story = scenario::parse(STORY, "demo.yaml")?;
    let mut presenter = presenter::OnScreen::new(&story);
    let variant = Variant::all(&story.runs).remove(0);
    if let Err(failure) = scenario::tell(&mut presenter, &story, variant, &scenario::How::default())
    {
        return Err(failure.into_error());
    }
    presenter.end(&story).map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::recording::Kind;
    use crate::replay::recording::Recording;
    use crate::scenario::format::{Condition, Step};
    use std::path::Path;

    fn story() -> scenario::format::Scenario {
        scenario::parse(STORY, "demo.yaml").unwrap()
    }

    #[test]
    fn the_finished_pod_stays_a_ready_endpoint_after_its_address_belongs_to_another() {
        let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
        let recording = Recording::read(&traces.join("d-job-ip-reuse")).unwrap();
        let at = |kind, name: &str, until: u128| {
            let versions = recording.objects(kind).filter(|(at, object)| {
                at.as_millis() <= until && object["metadata"]["name"] == name
            });
            versions.last().unwrap().1.clone()
        };
        let [a, b] = ["ok-h8tsd", "n3"].map(|name| at(Kind::Pod, name, 9000));
        assert_eq!(
            (&a["status"]["phase"], &b["status"]["phase"]),
            (&"Succeeded".into(), &"Running".into())
        );
        assert_eq!(a["status"]["podIP"], b["status"]["podIP"]);
        let slice = at(Kind::EndpointSlice, "sp-w79hg", 9000);
        let endpoints = slice["endpoints"].as_array().unwrap();
        let of_a = endpoints
            .iter()
            .find(|of| of["targetRef"]["uid"] == a["metadata"]["uid"]);
        let conditions = &of_a.unwrap()["conditions"];
        let flags = ["ready", "serving", "terminating"].map(|flag| conditions[flag] == true);
        assert_eq!(flags, Condition::Published.flags());
    }

    #[test]
    fn the_pod_of_the_rerun_is_another_one_and_alone_in_the_slice() {
        let story = story();
        let a = &story.pods["A"];
        let again = &story.pods["A-again"];
        assert_eq!(
            (&a.labels, again.answers.as_deref()),
            (&again.labels, Some("A"))
        );
        assert_ne!((&a.is, &a.ip), (&again.is, &again.ip));
        let mut slices = story.steps.iter().filter_map(|step| match &step.value {
            Step::Slices(slices) => slices.get("domain-a/report"),
            _ => None,
        });
        let last = slices.next_back().unwrap();
        assert_eq!(
            last.iter().collect::<Vec<_>>(),
            [(&"A-again".to_owned(), &Condition::Ready)]
        );
    }

    #[test]
    fn clients_belong_to_no_service() {
        let story = story();
        for client in ["client-a", "client-b"] {
            assert!(story.pods[client].labels.is_empty(), "{client}");
        }
    }
}
