//! The layouts of pinned maps: frozen, because an agent of another release finds them.

use super::*;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

#[test]
#[ignore = "needs root: BPF"]
fn the_layout_of_every_pinned_map_is_the_one_that_its_number_stands_for() {
    let node = Node::new();
    drop(node.load(Hooks::Tcx));
    let number = format!("v{}", epguard_common::ABI_VERSION);
    let layout = layout(&node.pins().join(&number));
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/kernel/lifecycle/layouts/{number}.txt"));
    if std::env::var_os("EPGUARD_WRITE_GOLDEN").is_some() {
        fs::write(&frozen, &layout).unwrap();
    }
    let frozen = fs::read_to_string(frozen).unwrap_or_default();
    assert_eq!(
        layout, frozen,
        "an agent of another release finds this: what it misreads is another ABI_VERSION"
    );
}

/// Each map: kind, sizes, and the types of key and value.
fn layout(pins: &Path) -> String {
    let maps = fs::read_dir(pins)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut maps: Vec<_> = maps.filter(|path| path.is_file()).collect();
    maps.sort();
    assert!(maps.len() > 10, "the pinned maps are elsewhere: {maps:?}");
    let mut layout = String::new();
    for map in maps {
        let path = map.to_str().unwrap();
        let shown = json("bpftool", &["-j", "map", "show", "pinned", path]);
        write!(layout, "{}:", map.file_name().unwrap().display()).unwrap();
        for field in ["type", "flags", "bytes_key", "bytes_value", "max_entries"] {
            write!(layout, " {field} {}", shown[field]).unwrap();
        }
        layout.push('\n');
        // Maps of a fixed kind have no types.
        if shown["btf_id"].as_u64().is_some_and(|id| id != 0) {
            let types = run(
                "bpftool",
                &["btf", "dump", "map", "pinned", path, "kv", "format", "c"],
            );
            let types = types
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with('#'));
            layout.extend(types.map(|line| format!("    {line}\n")));
        }
    }
    layout
}
