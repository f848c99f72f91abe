//! Reads a YAML file into a checked [`Scenario`]. Every error names the file, the line and the correct form.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use epguard_common::{OneOf, Outcome};

use super::format::{Action, Call, Forbidden, ProxyStep, Scenario, Sees, Step};
use super::references::{self, HOSTS, destination, host, pod, service};

/// Words in `sees` that are not names of pods.
const OUTCOMES: [&str; 3] = ["nothing", "refused", "reset"];

/// Reads a scenario.
pub fn load(path: &Path) -> Result<Scenario> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text, &path.display().to_string())
}

/// Parses and checks a scenario; `file` is for messages.
pub fn parse(text: &str, file: &str) -> Result<Scenario> {
    let scenario: Scenario = serde_saphyr::from_str(text).map_err(|error| {
        let message = error.without_snippet().to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        match error.location() {
            Some(at) => anyhow!("{file}:{}:{}: {message}", at.line(), at.column()),
            None => anyhow!("{file}: {message}"),
        }
    })?;
    check_cast(&scenario).with_context(|| file.to_owned())?;
    for step in &scenario.steps {
        let place = || format!("{file}:{}", step.referenced.line());
        check_step(&scenario, &step.value).with_context(place)?;
        for call in step.value.calls() {
            let place = || format!("{file}:{}", call.referenced.line());
            check_call(&scenario, &call.value).with_context(place)?;
        }
    }
    Ok(scenario)
}

fn check_cast(scenario: &Scenario) -> Result<()> {
    let runs = &scenario.runs;
    let variants = [runs.family.len(), runs.caller.len(), runs.cni.len(), runs.overlay.len()];
    ensure!(!variants.contains(&0), "`runs` has an empty list, so that the story would never run");
    ensure!(!scenario.steps.is_empty(), "the story has no steps");
    check_neighbour(scenario)?;
    ensure!(
        !(runs.action.iter().chain(&scenario.agent.action)).any(|action| *action == Action::Redirect),
        "the agent's action is drop, reject or capture; only an annotation can ask for redirect"
    );
    for (name, pod) in &scenario.pods {
        ensure!(
            !OUTCOMES.contains(&&**name)
                && !HOSTS.contains(&&**name)
                && !name.contains(['/', '.', '$', '{', '}']),
            "a pod cannot be called {name:?}: that name is reserved"
        );
        check_name(&pod.is).with_context(|| format!("pod {name}"))?;
        ensure!(
            ["node-a", "node-b", "node-c"].contains(&&*pod.node),
            "pod {name}: there is no node {:?}, only node-a, node-b and node-c",
            pod.node
        );
        for symbol in references::symbols_of(pod) {
            ensure!(
                !scenario.pods.contains_key(symbol),
                "pod {name}: {symbol:?} names a pod, so it cannot name an address, too"
            );
        }
    }
    scenario.services.keys().try_for_each(|service| check_name(service))
}

fn check_neighbour(scenario: &Scenario) -> Result<()> {
    let runs = &scenario.runs;
    let Some(neighbour) = &scenario.neighbour else {
        let has_balancer = runs.caller.iter().all(|caller| caller.has_balancer());
        ensure!(
            runs.place.is_empty() && (runs.first.is_empty() || has_balancer),
            "`runs` varies a neighbour, and the story has no `neighbour`"
        );
        return Ok(());
    };
    for Forbidden { from, to, .. } in &neighbour.forbids {
        host(scenario, from).context("`forbids`")?;
        destination(scenario, to).context("`forbids`")?;
    }
    Ok(())
}

fn check_name(name: &str) -> Result<()> {
    let parts: Vec<_> = name.split('/').collect();
    ensure!(parts.len() == 2 && !parts.contains(&""), "{name:?} is not namespace/name");
    Ok(())
}

fn check_step(scenario: &Scenario, step: &Step) -> Result<()> {
    match step {
        Step::Pods(steps) => steps.iter().try_for_each(|step| pod(scenario, &step.name)),
        Step::Slices(slices) => slices.iter().try_for_each(|(of, endpoints)| {
            service(scenario, of)?;
            endpoints.keys().try_for_each(|name| pod(scenario, name))
        }),
        Step::Proxy(ProxyStep::Set(rules)) => rules.iter().try_for_each(|(of, backends)| {
            service(scenario, of)?;
            backends.iter().try_for_each(|name| pod(scenario, name))
        }),
        Step::Neighbour(_) => {
            ensure!(scenario.neighbour.is_some(), "the story has no `neighbour`");
            Ok(())
        }
        Step::Burst(burst) => references::burst(scenario, burst),
        Step::HostPorts(ports) => ports.values().try_for_each(|name| pod(scenario, name)),
        _ => Ok(()),
    }
}

fn check_call(scenario: &Scenario, call: &Call) -> Result<()> {
    match (&call.call, &call.on) {
        (Some(to), None) => destination(scenario, to)?,
        (None, Some(_)) => {}
        _ => bail!("a call has either `call: WHOM` or `on: FLOW`"),
    }
    if let Some(from) = &call.from {
        host(scenario, from)?;
    }
    ensure!(
        call.forbidden.is_none() || scenario.neighbour.is_some(),
        "the call is forbidden, and the story has no `neighbour` whose policy could do that"
    );
    for outcome in call.sees.allowed().iter().chain(call.enforced.iter().flat_map(Sees::allowed)) {
        ensure!(
            scenario.pods.contains_key(outcome) || OUTCOMES.contains(&&**outcome),
            "a client cannot see {outcome:?}; it sees the name of a pod of the story, {}",
            OUTCOMES.join(", ")
        );
    }
    references::reason(call.denied.as_deref())?;
    for outcome in &call.counted {
        ensure!(
            Outcome::named(outcome).is_some(),
            "nothing is counted as {outcome:?}: {}",
            OneOf(Outcome::ALL)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn error(from: &str, to: &str) -> String {
        assert!(STORY.contains(from), "{from:?} is not in the story");
        format!("{:#}", parse(&STORY.replace(from, to), "story.yaml").unwrap_err())
    }

    #[test]
    fn a_story_is_read() {
        assert_eq!(parse(STORY, "story.yaml").unwrap().steps.len(), 2);
    }

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
    fn an_unknown_key_is_named_with_file_line_and_the_keys_there_are() {
        let error = error("ns/s: {}", "ns/s: {selektor: {app: a}}");
        for part in ["story.yaml", "selektor", "story.yaml:8:10", "selector", "publish-not-ready-addresses"] {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }

    #[test]
    fn an_unknown_event_is_named_with_the_events_there_are() {
        let error = error("A starts", "A explodes");
        for part in ["story.yaml", "explodes", "succeeds", "force-deleted"] {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }

    #[test]
    fn an_unknown_pod_is_named_with_the_line() {
        let error = error("[A starts]", "[Z starts]");
        assert!(error.contains("story.yaml:10: there is no pod \"Z\" in this story; there are A"), "{error}");
    }

    #[test]
    fn a_reason_that_does_not_exist_is_refused() {
        let error = error("sees: A}", "sees: A, denied: reusd}");
        assert!(error.contains("story.yaml:12: no denial has the reason \"reusd\""), "{error}");
    }

    #[test]
    fn a_pod_name_that_is_an_outcome_is_refused() {
        assert!(error("  A: {", "  nothing: {").contains("cannot be called \"nothing\""));
    }

    #[test]
    fn a_call_that_no_neighbour_can_forbid_is_refused() {
        assert!(error("sees: A}", "sees: A, forbidden: every-mode}").contains("no `neighbour`"));
    }

    #[test]
    fn a_burst_has_one_denied_group_and_names_what_it_would_hit() {
        let group = "{means: A, sees: A, denied: reused, claim: c, callers: []}";
        let burst = |groups: &str| {
            let step = format!("  - burst: {{title: t, rounds: 1, groups: [{groups}]}}\n  - check:");
            error("  - check:", &step)
        };
        assert!(burst(group).contains("`denied` and `hit`"));
        assert!(burst(&format!("{group}, {group}")).contains("more than one group"));
    }

    #[test]
    fn a_neighbour_forbids_only_calls_between_hosts_of_the_scenario() {
        let text = "neighbour: {kind: policy, forbids: [{from: Z, to: A}]}\nsteps:";
        assert!(error("steps:", text).contains("there is no \"Z\" to call from"));
    }
}
