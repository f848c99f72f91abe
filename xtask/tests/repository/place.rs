//! The repository's public place: `repository` in Cargo.toml decides, and every file names that one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// What stands before the owner in an address of the repository, and in the name of an image or a
/// chart; what stands behind it.
const ADDRESSES: [(&str, &str); 3] = [
    ("https://github.com/", "/epguard"),
    ("ghcr.io/", "/epguard"),
    ("ghcr.io/", "/charts"),
];

/// `EPGUARD_WRITE_GOLDEN=1` writes the owner of Cargo.toml into all files: a fork changes the line
/// in Cargo.toml, and runs this.
#[test]
fn every_address_of_the_repository_of_its_image_and_of_its_chart_has_the_owner_in_cargo_toml() {
    let mut wrong = Vec::new();
    let mut found = 0;
    for file in text_files() {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        found += owners(&text).len();
        let right = with_owner(&text, owner());
        if right == text {
            continue;
        }
        if std::env::var_os("EPGUARD_WRITE_GOLDEN").is_some() {
            fs::write(&file, right).unwrap();
        } else {
            wrong.push(file);
        }
    }
    assert!(
        wrong.is_empty(),
        "another owner than {REPOSITORY}: {wrong:#?}; EPGUARD_WRITE_GOLDEN=1 writes them anew"
    );
    assert!(found > 10, "only {found} addresses were found");
}

#[test]
fn another_owner_is_found_and_replaced_wherever_an_address_has_one() {
    let text = "image: ghcr.io/old/epguard:1\nhttps://github.com/Old/epguard/issues, not \
                https://github.com/aya-rs/bpf-linker or ghcr.io/x/y; oci://ghcr.io/old/charts/epguard";
    assert_eq!(owners(text), ["Old", "old", "old"]);
    assert_eq!(
        with_owner(text, "New"),
        "image: ghcr.io/new/epguard:1\nhttps://github.com/New/epguard/issues, not \
         https://github.com/aya-rs/bpf-linker or ghcr.io/x/y; oci://ghcr.io/new/charts/epguard"
    );
}

#[test]
fn the_chart_and_the_plugin_name_the_repository_as_their_home() {
    let chart = read("deploy/chart/Chart.yaml");
    let chart: Value = serde_saphyr::from_str(&chart).unwrap();
    assert_eq!(chart["home"], REPOSITORY);
    assert_eq!(chart["sources"], serde_json::json!([REPOSITORY]));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    let plugin: Value = serde_saphyr::from_str(&read("xtask/release/krew.yaml")).unwrap();
    assert_eq!(plugin["spec"]["homepage"], REPOSITORY);
    let values: Value = serde_saphyr::from_str(&read("deploy/chart/values.yaml")).unwrap();
    let image = format!("ghcr.io/{}/epguard", owner().to_lowercase());
    assert_eq!(values["image"]["repository"], image);
    assert_eq!(values["image"]["digest"], "");
}

/// `OWNER` in `https://github.com/OWNER/epguard`.
fn owner() -> &'static str {
    let path = REPOSITORY.strip_prefix("https://github.com/");
    path.and_then(|path| path.strip_suffix("/epguard"))
        .expect("`repository` in Cargo.toml is no https://github.com/OWNER/epguard")
}

/// The owners in the addresses of a text, by the order of `ADDRESSES`.
fn owners(text: &str) -> Vec<&str> {
    let mut owners = Vec::new();
    for (before, after) in ADDRESSES {
        for rest in text.split(before).skip(1) {
            let end = rest.find(is_no_part_of_a_name).unwrap_or(rest.len());
            let (owner, rest) = rest.split_at(end);
            if is_this(rest, after) && !owner.is_empty() {
                owners.push(owner);
            }
        }
    }
    owners
}

/// The text with this owner in its addresses; registries want it in lower case.
fn with_owner(text: &str, owner: &str) -> String {
    let mut text = text.to_owned();
    for (before, after) in ADDRESSES {
        let owner = if before == "ghcr.io/" {
            owner.to_lowercase()
        } else {
            owner.to_owned()
        };
        let mut parts = text.split(before);
        let mut replaced = parts.next().unwrap_or_default().to_owned();
        for rest in parts {
            let end = rest.find(is_no_part_of_a_name).unwrap_or(rest.len());
            let (old, rest) = rest.split_at(end);
            let is_this = is_this(rest, after) && !old.is_empty();
            replaced += before;
            replaced += if is_this { &owner } else { old };
            replaced += rest;
        }
        text = replaced;
    }
    text
}

fn is_no_part_of_a_name(c: char) -> bool {
    !(c.is_ascii_alphanumeric() || c == '-')
}

/// Whether what follows an owner is the repository, and no other one whose name begins alike.
fn is_this(rest: &str, after: &str) -> bool {
    let rest = rest.strip_prefix(after);
    rest.is_some_and(|rest| rest.starts_with(is_no_part_of_a_name) || rest.is_empty())
}

/// The files of the repository but for sources of Rust: these take the place from Cargo.toml, and
/// addresses in their tests are examples.
fn text_files() -> Vec<PathBuf> {
    let root = root();
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let output = git.current_dir(&root).output().unwrap();
    assert!(output.status.success(), "git lists no files");
    let names = String::from_utf8(output.stdout).unwrap();
    let files = names.lines().map(|name| root.join(name));
    files
        .filter(|file| file.extension().is_none_or(|end| end != "rs"))
        .collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
