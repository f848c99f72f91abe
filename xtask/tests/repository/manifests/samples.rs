//! Each value of the chart: it has an effect, and no text in it becomes anything but that text.

use super::agent::{options, pod_of};
use super::chart::helm;
use super::objects;
use super::values::rows;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Texts that mean something in YAML, in templates, to the kubelet or to the agent.
const HOSTILE: [&str; 17] = [
    "x: y",
    "x\n- --mode=enforce",
    "x\n  hostPID: true",
    "x\"y'z",
    "{{ .Values.mode }}",
    "x #y",
    "- x",
    "&x",
    "*x",
    "!x",
    "%x",
    "[x",
    "true",
    "1e3",
    "null",
    "\u{1f600}\u{2028}",
    "x\u{7f}",
];

/// What `samples.yaml` holds.
#[derive(Deserialize)]
struct Samples {
    beside: Value,
    samples: BTreeMap<String, Value>,
}

impl Samples {
    fn read() -> Self {
        serde_saphyr::from_str(include_str!("samples.yaml")).unwrap()
    }

    /// All values, with this one at this path.
    fn with(&self, path: &str, value: &Value) -> Value {
        let mut values = self.beside.clone();
        let mut place = &mut values;
        for key in path.split('.') {
            place = &mut place[key];
        }
        *place = value.clone();
        values
    }
}

/// What Helm renders for a cluster that has every API that the chart uses.
fn render(all: &[Value]) -> Vec<Value> {
    let options = json!({"api_versions": ["security.openshift.io/v1"], "hooks": true});
    let calls: Vec<Value> = all
        .iter()
        .map(|values| json!(["template", values, options]))
        .collect();
    helm(&calls)
}

/// The objects of a release, with those of `helm test`.
fn rendered(release: &Value) -> Vec<Value> {
    let manifest = release["manifest"]
        .as_str()
        .unwrap_or_else(|| panic!("{release}"));
    let mut all = objects(manifest);
    all.extend(objects(release["hooks"].as_str().unwrap()));
    all
}

fn daemon_set(objects: &[Value]) -> &Value {
    let mut sets = objects
        .iter()
        .filter(|object| object["kind"] == "DaemonSet");
    sets.next().unwrap()
}

#[test]
fn every_value_of_the_chart_has_a_sample() {
    let rows: BTreeSet<String> = rows().into_iter().map(|row| row.path).collect();
    let sampled: BTreeSet<String> = Samples::read().samples.into_keys().collect();
    assert_eq!(sampled, rows);
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn each_value_changes_the_objects_and_leaves_arguments_that_the_agent_takes() {
    let all = Samples::read();
    let mut values = vec![all.beside.clone()];
    values.extend(
        all.samples
            .iter()
            .map(|(path, value)| all.with(path, value)),
    );
    let releases = render(&values);
    let usual = rendered(&releases[0]);
    for (path, release) in all.samples.keys().zip(&releases[1..]) {
        let objects = rendered(release);
        assert_ne!(objects, usual, "{path} has no effect");
        let read = options(&pod_of(daemon_set(&objects)));
        assert!(read.is_ok(), "{path}: {:?}", read.err());
    }
}

/// The value with this text in place of each of its texts, or also in place of its keys.
fn poisoned(value: &Value, text: &str, keys: bool) -> Value {
    match value {
        Value::String(_) => json!(text),
        Value::Array(items) => items
            .iter()
            .map(|item| poisoned(item, text, keys))
            .collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| {
                let key = if keys { text } else { key };
                (key.to_owned(), poisoned(value, text, keys))
            })
            .collect(),
        other => other.clone(),
    }
}

/// All texts in a value, and all keys.
fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(map) => {
            for (key, value) in map {
                found.push(key);
                texts(value, found);
            }
        }
        _ => {}
    }
}

fn kinds(objects: &[Value]) -> Vec<&str> {
    objects
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .collect()
}

/// A text in place of each text of a sample.
struct Case {
    path: String,
    text: &'static str,
    values: Value,
}

fn cases(all: &Samples) -> Vec<Case> {
    let mut cases = Vec::new();
    for (path, value) in &all.samples {
        for text in HOSTILE {
            for keys in [false, true] {
                let hostile = poisoned(value, text, keys);
                if hostile != *value {
                    let path = path.clone();
                    let values = all.with(&path, &hostile);
                    cases.push(Case { path, text, values });
                }
            }
        }
    }
    cases
}

#[test]
#[ignore = "needs Helm's engine: cargo xtask setup installs it"]
fn a_hostile_text_in_any_value_is_refused_with_its_place_or_stays_that_text() {
    let all = Samples::read();
    let cases = cases(&all);
    let hostile: Vec<Value> = cases.iter().map(|case| case.values.clone()).collect();
    let benign: Vec<Value> = all
        .samples
        .iter()
        .map(|(path, value)| all.with(path, value))
        .collect();
    let mut usual = BTreeMap::new();
    for (path, release) in all.samples.keys().zip(render(&benign)) {
        usual.insert(path, rendered(&release));
    }
    let mut accepted = BTreeSet::new();
    for (case, hostile) in cases.iter().zip(render(&hostile)) {
        let Case { path, text, .. } = case;
        if let Some(error) = hostile["error"].as_str() {
            let by_schema = format!("at '/{}", path.replace('.', "/"));
            let by_template = format!("\n{path}");
            let has_place = error.contains(&by_schema) || error.contains(&by_template);
            assert!(has_place, "{path} {text:?}: {error}");
            continue;
        }
        accepted.insert(&**path);
        let usual = &usual[path];
        let objects = rendered(&hostile);
        assert_eq!(kinds(&objects), kinds(usual), "{path} {text:?}");
        assert_eq!(
            count_arguments(&objects),
            count_arguments(usual),
            "{path} {text:?}"
        );
        let mut found = Vec::new();
        for object in &objects {
            texts(object, &mut found);
        }
        let is_there = found.iter().any(|one| one.contains(text));
        assert!(is_there, "{path} {text:?} is lost: {found:?}");
    }
    // A chart that refused everything would pass all of the checks above.
    for path in ["extraEnv", "commonAnnotations", "metrics.relabelings"] {
        assert!(accepted.contains(path), "{accepted:?}");
    }
}

fn count_arguments(objects: &[Value]) -> usize {
    let containers = pod_of(daemon_set(objects)).containers;
    containers[0].args.as_ref().unwrap().len()
}
