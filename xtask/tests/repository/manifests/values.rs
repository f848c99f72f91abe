//! `values.yaml`: its table in the chart's README, and the agent's options that it covers.

use super::agent::{options, pod_of};
use super::chart::render;
use super::{expect, object, objects, text};
use clap::{Arg, CommandFactory as _};
use epguard_common::Reason;
use epguard_core::facts::PolicyKey;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Flags of the agent that are no values of `agent`, and why.
const NOT_OF_AGENT: [(&str, &str); 12] = [
    ("mode", "value `mode`"),
    ("reason-mode", "value `reasons`"),
    ("action", "values `action` and `reasons`"),
    (
        "metrics-listen",
        "values `metrics.address` and `metrics.port`",
    ),
    ("health-listen", "value `healthPort`"),
    ("mode-policy", "the ConfigMap that value `modePolicy` fills"),
    ("node-name", "the pod's own"),
    ("kubeconfig", "the pod's service account"),
    ("cgroup", "where the pod mounts it"),
    ("pin-dir", "the same"),
    ("run-dir", "the same"),
    ("debug-datapath", "for a lab"),
];

pub(super) struct Row {
    /// As in `--set`.
    pub(super) path: String,
    default: Value,
    text: String,
}

/// A row for each comment that begins with `# --`.
pub(super) fn rows() -> Vec<Row> {
    let yaml = text("chart/values.yaml");
    let mut rows = Vec::new();
    let mut parents = Vec::<(usize, &str)>::new();
    let values: Value = serde_saphyr::from_str(&yaml).unwrap();
    let mut comment = None;
    for line in yaml.lines() {
        let inner = line.trim_start();
        if let Some(text) = inner.strip_prefix("# -- ") {
            comment = Some(text.to_owned());
        } else if let Some((key, _)) = inner.split_once(':')
            && !inner.starts_with(['#', '-'])
        {
            let indent = line.len() - inner.len();
            parents.retain(|(other, _)| *other < indent);
            parents.push((indent, key));
            let keys: Vec<&str> = parents.iter().map(|(_, key)| *key).collect();
            if let Some(text) = comment.take() {
                let default = values
                    .pointer(&format!("/{}", keys.join("/")))
                    .unwrap()
                    .clone();
                rows.push(Row {
                    path: keys.join("."),
                    default,
                    text,
                });
            }
        }
    }
    rows
}

#[test]
fn the_table_in_the_readme_has_a_row_for_each_value() {
    let readme = text("chart/README.md");
    let (head, _) = readme.split_once("| value |").unwrap();
    let rows = rows().into_iter().map(
        |Row {
             path,
             default,
             text,
         }| format!("| `{path}` | `{default}` | {text} |\n"),
    );
    expect(
        "chart/README.md",
        &format!(
            "{head}| value | default | what it is |\n|---|---|---|\n{}",
            rows.collect::<String>()
        ),
    );
}

/// Every leaf of the defaults is below a row, and the schema has the same keys at the top.
#[test]
fn every_value_has_a_comment_and_a_place_in_the_schema() {
    let values: Value = serde_saphyr::from_str(&text("chart/values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&text("chart/values.schema.json")).unwrap();
    let rows = rows();
    for (key, value) in values.as_object().unwrap() {
        let properties = &schema["properties"][key];
        assert!(properties.is_object(), "{key}");
        let is_row = |path: &str| rows.iter().any(|row| row.path == path);
        let inner = value.as_object().into_iter().flatten();
        if is_row(key) {
            continue;
        }
        for (inner, _) in inner {
            assert!(is_row(&format!("{key}.{inner}")), "{key}.{inner}");
            assert!(!properties["properties"][inner].is_null(), "{key}.{inner}");
        }
        assert!(value.is_object(), "{key}");
    }
}

#[test]
fn each_deny_reason_has_a_place_in_the_schema() {
    let schema: Value = serde_json::from_str(&text("chart/values.schema.json")).unwrap();
    let names_of = |value: &str| -> BTreeSet<String> {
        let properties = schema["properties"][value]["properties"].as_object();
        properties.unwrap().keys().cloned().collect()
    };
    let reasons = Reason::TO_DENY.map(|reason| reason.to_string());
    assert_eq!(names_of("reasons"), reasons.into());
    // A release of the breaker is for an incident, and not for values.
    let keys = PolicyKey::all().filter(|key| *key != PolicyKey::BreakerRelease);
    let keys: BTreeSet<String> = keys.map(|key| key.to_string()).collect();
    assert_eq!(names_of("modePolicy"), keys);
}

#[test]
fn the_pages_and_the_notes_set_only_values_of_the_schema() {
    let schema: Value = serde_json::from_str(&text("chart/values.schema.json")).unwrap();
    let mut set = 0;
    for file in [
        "../docs/install.md",
        "../docs/upgrade.md",
        "../docs/quickstarts.md",
        "chart/templates/NOTES.txt",
    ] {
        for key in text(file)
            .split(" --set ")
            .skip(1)
            .map(|rest| rest.split(['=', ' ']).next().unwrap())
        {
            set += 1;
            let rule = schema.pointer(&format!("/properties/{}", key.replace('.', "/properties/")));
            assert!(rule.is_some(), "{file}: {key}");
        }
    }
    assert!(set > 4, "{set}");
}

fn flags() -> Vec<Arg> {
    let mut commands = epguard::cli::Cli::command();
    commands.build();
    let agent = commands.find_subcommand("agent").unwrap();
    let flags = agent
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && arg.get_long() != Some("help"));
    flags.cloned().collect()
}

/// The value's name, as `--api-rate` is `apiRate`.
fn camel_case(flag: &str) -> String {
    let mut words = flag.split('-');
    let first = words.next().unwrap().to_owned();
    words.fold(first, |name, word| {
        name + &word[..1].to_uppercase() + &word[1..]
    })
}

/// What `epguard agent -h` prints about a flag.
fn help(flag: &Arg) -> String {
    let of = |what: &str, values: Vec<String>| {
        let is_shown = !values.is_empty() && flag.get_action().takes_values();
        if is_shown {
            format!(" [{what}: {}]", values.join(", "))
        } else {
            String::new()
        }
    };
    let defaults = flag
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned());
    let possible = flag
        .get_possible_values()
        .into_iter()
        .map(|value| value.get_name().to_owned());
    format!(
        "{}{}{}",
        flag.get_help().unwrap(),
        of("default", defaults.collect()),
        of("possible values", possible.collect())
    )
}

#[test]
fn each_flag_of_the_agent_is_a_value_with_its_help_or_is_named_with_the_reason() {
    let mut left: Vec<Row> = rows()
        .into_iter()
        .filter(|row| row.path.starts_with("agent."))
        .collect();
    for flag in flags() {
        let name = flag.get_long().unwrap();
        let path = format!("agent.{}", camel_case(name));
        let excluded = NOT_OF_AGENT.iter().any(|(other, _)| *other == name);
        let row = left
            .iter()
            .position(|row| row.path == path)
            .map(|at| left.remove(at));
        assert_eq!(row.is_none(), excluded, "{name}");
        if let Some(row) = row {
            assert_eq!(row.text, help(&flag), "{path}");
        }
    }
    assert!(
        left.is_empty(),
        "no flag of {:?}",
        left.iter().map(|row| &row.path).collect::<Vec<_>>()
    );
}

/// For each value of `agent`: what its schema allows at its limits.
#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn the_agent_takes_every_value_that_the_schema_allows() {
    let schema: Value = serde_json::from_str(&text("chart/values.schema.json")).unwrap();
    let mut all = Vec::new();
    let flags = flags();
    for (key, rule) in schema["properties"]["agent"]["properties"]
        .as_object()
        .unwrap()
    {
        let flag = flags
            .iter()
            .find(|flag| camel_case(flag.get_long().unwrap()) == *key)
            .unwrap();
        let choices: Vec<Value> = rule["enum"].as_array().cloned().unwrap_or_default();
        let mut words: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
        let mut possible: Vec<String> = flag
            .get_possible_values()
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect();
        words.sort_unstable();
        possible.sort_unstable();
        assert_eq!(
            words,
            if rule["type"] == "boolean" {
                vec![]
            } else {
                possible
            },
            "{key}"
        );
        let limits = [&rule["minimum"], &rule["maximum"]]
            .into_iter()
            .filter(|limit| limit.is_number())
            .cloned();
        let example = match key.as_str() {
            "protectCidr" | "excludeCidr" => json!(["10.244.0.0/16", "fd00:10::/32"]),
            "podInterfaces" | "uplinks" => json!(["eth*", "ens3"]),
            "ciliumMaps" => json!("/sys/fs/bpf/other"),
            _ => json!(null),
        };
        let examples = choices.into_iter().chain(limits).chain([example]);
        for value in examples {
            let mut values = json!({"agent": {key: value}});
            if key == "apiRate" {
                // A slow agent can only keep an old view fresh.
                values["agent"]["maxViewAge"] = 300.into();
            }
            all.push(values);
        }
        all.extend((rule["type"] == "boolean").then(|| json!({"agent": {key: true}})));
    }
    for (values, rendered) in all.iter().zip(render(&all)) {
        let manifest = rendered["manifest"]
            .as_str()
            .unwrap_or_else(|| panic!("{values}: {rendered}"));
        let pod = pod_of(&object(&objects(manifest), "DaemonSet", "epguard"));
        let read = options(&pod);
        assert!(read.is_ok(), "{values}: {:?}", read.err());
    }
    assert!(all.len() > 40, "{}", all.len());
}
