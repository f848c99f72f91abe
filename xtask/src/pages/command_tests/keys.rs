//! Names that the pages share with the code: annotations, labels, keys of the `ConfigMap`, maps and fields.

use std::fs;
use std::sync::LazyLock;

use serde_json::Value;

use super::programs;
use crate::files::read_all;
use crate::process::root;

/// The text of each file that reads or writes names of the user interface.
static SOURCES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let rooms = ["agent/src", "agent/core", "common/src", "ebpf/src"];
    let rooms = rooms.into_iter().filter(|room| root().join(room).exists());
    let files = rooms.flat_map(|room| read_all(room, "rs").unwrap());
    files.map(|file| file.text).collect()
});

fn is_in_sources(text: &str) -> bool {
    SOURCES.iter().any(|file| file.contains(text))
}

fn in_sources(text: &str, what: &str) -> Result<(), String> {
    is_in_sources(text).then_some(()).ok_or_else(|| format!("the code knows no {what}"))
}

/// Each `epguard.io/KEY` in a page is an annotation or label that the code reads.
pub(super) fn annotations(page: &str) -> Result<(), String> {
    let keys = page.split("epguard.io/").skip(1);
    let mut keys = keys.filter_map(|rest| rest.split(|c: char| !(c.is_ascii_lowercase() || c == '-')).next());
    keys.try_for_each(|key| in_sources(&format!("\"epguard.io/{key}\""), &format!("epguard.io/{key}")))
}

/// The `ConfigMap` that the `DaemonSet` names.
pub(super) fn config_map(name: &str) -> Result<(), String> {
    let manifest = fs::read_to_string(root().join("deploy/base/daemonset.yaml")).unwrap();
    let named = manifest.contains(&format!("--fleet-config=epguard/{name}\n"));
    named.then_some(()).ok_or_else(|| format!("the DaemonSet reads no ConfigMap {name}"))
}

/// A key of its data: the file that reads it writes each key in quotes.
pub(super) fn config_map_key(key: &str) -> Result<(), String> {
    let mut readers = SOURCES.iter().filter(|file| file.contains("\"canary-mode\""));
    let reasons = epguard_common::Reason::ALL.map(epguard_common::Reason::as_str);
    let known = reasons.contains(&key) || readers.any(|file| file.contains(&format!("\"{key}\"")));
    known.then_some(()).ok_or_else(|| format!("the ConfigMap has no key {key}"))
}

/// A patch of the `ConfigMap`'s data, or of the agent's arguments.
pub(super) fn patch(json: &str) -> Result<(), String> {
    let patch: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let mut data = patch["data"].as_object().into_iter().flatten();
    data.try_for_each(|(key, _)| config_map_key(key))?;
    let flags = patch.as_array().into_iter().flatten();
    let mut flags = flags.filter_map(|change| change["value"].as_str());
    flags.try_for_each(programs::flag)
}

/// A path below the pins: the version of the layout, a map in it, or the list of qdiscs.
pub(super) fn pinned(path: &str) -> Result<(), String> {
    let Some(rest) = path.strip_prefix("/sys/fs/bpf/epguard/") else {
        return Ok(());
    };
    if rest == "clsact" {
        return in_sources("\"clsact\"", path);
    }
    let (layout, map) = rest.split_once('/').unwrap_or((rest, ""));
    let current = format!("v{}", epguard_common::ABI_VERSION);
    if layout != current {
        return Err(format!("the layout of the maps is {current}, not {layout}"));
    }
    if map.is_empty() || map.starts_with("links/") {
        return Ok(());
    }
    in_sources(&format!("static {map}:"), &format!("map {map}"))
}

/// Fields of the JSON that a filter of jq names: the agent's structures have them, as Rust spells them.
pub(super) fn fields(filter: &str) -> Result<(), String> {
    let names = filter.split('.').skip(1);
    let names = names.filter_map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()).next());
    let mut names = names.filter(|name| !name.is_empty());
    let unknown = names.find(|name| {
        let spelled = snake_case(name);
        !is_in_sources(&format!("    {spelled}:")) && !is_in_sources(&format!("    pub {spelled}:"))
    });
    unknown.map_or(Ok(()), |name| Err(format!("the code knows no field {name}")))
}

fn snake_case(name: &str) -> String {
    let mut spelled = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            spelled.push('_');
        }
        spelled.push(c.to_ascii_lowercase());
    }
    spelled
}
