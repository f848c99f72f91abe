//! Checks pages and comments for words that name no actor, or that have a plainer word.

use anyhow::Result;

use crate::files::{File, read_all};

/// Banned words and phrases: lower case, without punctuation.
const BANNED: [&str; 25] = [
    "anybody",
    "believe",
    "believed",
    "believes",
    "design section",
    "everybody",
    "heard",
    "hears",
    "never #",
    "news",
    "nobody",
    "remember",
    "remembers",
    "said",
    "somebody",
    "steer",
    "steered",
    "steering",
    "steers",
    "told",
    "vacancy",
    "vacant",
    "whatever",
    "whoever",
    "whomever",
];

/// Checked files: folder, extension, and the part of a line that is prose.
const CHECKED: [(&str, &str, Prose); 4] = [
    ("", "md", page),
    ("", "rs", rust_comment),
    ("lab/scenarios", "yaml", yaml_comment),
    ("deploy", "yaml", yaml_comment),
];

type Prose = fn(&str) -> Option<&str>;

/// A message for each line with a banned word.
pub(crate) fn check() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (folder, extension, prose) in CHECKED {
        for File { name, text } in read_all(folder, extension)? {
            for (line, word) in banned(&text, prose) {
                found.push(format!(
                    "{name}:{line}: \"{word}\": name the pod, program or person, or use a plainer word"
                ));
            }
        }
    }
    Ok(found)
}

/// The number of each line with a banned word or phrase in its prose, and the word. Code in backticks or fences is
/// left out.
fn banned(text: &str, prose: Prose) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (line, number) in text.lines().zip(1..) {
        let Some(prose) = prose(line) else { continue };
        if prose.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let words = words(prose);
            let is_in = |banned: &&str| words.contains(&format!(" {banned} "));
            found.extend(BANNED.into_iter().filter(is_in).map(|word| (number, word)));
        }
    }
    found
}

/// The words outside of backticks in lower case, each between two spaces; `#` counts as a word.
fn words(prose: &str) -> String {
    let outside: Vec<&str> = prose.split('`').step_by(2).collect();
    let text = outside.join(" ` ").to_lowercase().replace('#', " # ");
    let words = text.split(|c: char| !(c.is_alphanumeric() || "#`".contains(c)));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    format!(" {} ", words.join(" "))
}

/// The line of a Markdown page, without indented code.
fn page(line: &str) -> Option<&str> {
    (!line.starts_with("    ")).then_some(line)
}

/// A line comment of Rust that has the line for itself.
fn rust_comment(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//")?;
    Some(comment.trim_start_matches(['/', '!']))
}

fn yaml_comment(line: &str) -> Option<&str> {
    let after_code = || line.split_once(" # ").map(|(_, comment)| comment);
    line.trim_start().strip_prefix("# ").or_else(after_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_of_a_page_are_found_with_their_line_and_code_is_left_out() {
        let text = "Nobody knows.\n`nobody` runs it\n    somebody\na body\nto somebody's pod, whoever it is\n\
                    ```\nvacant: 1\n```\nsteered";
        let found = [(1, "nobody"), (5, "somebody"), (5, "whoever"), (9, "steered")];
        assert_eq!(banned(text, page), found);
    }

    #[test]
    fn phrases_are_found_as_whole_words() {
        let text =
            "see Design section 6.8\ndesign sections\ndesign `a` section\nby Never #4\nkubernetes #109414";
        assert_eq!(banned(text, page), [(1, "design section"), (4, "never #")]);
    }

    #[test]
    fn only_comments_of_rust_are_checked() {
        let text = "//! Told once.\nlet told = \"nobody\";\n    /// ```text\n    /// nobody\n    /// ```\n    // a vacant IP";
        assert_eq!(banned(text, rust_comment), [(1, "told"), (6, "vacant")]);
    }

    #[test]
    fn only_comments_of_yaml_are_checked() {
        let text = "# Nobody is there.\ntells: [nobody]\n  - pods: [A starts]   # whatever it is";
        assert_eq!(banned(text, yaml_comment), [(1, "nobody"), (3, "whatever")]);
    }

    #[test]
    fn pages_of_recordings_sources_scenarios_and_manifests_are_checked() {
        let files = CHECKED.map(|(folder, extension, _)| read_all(folder, extension).unwrap());
        let names: Vec<&str> = files.iter().flatten().map(|file| &*file.name).collect();
        for name in [
            "README.md",
            "docs/limits.md",
            "lab/traces/h-crashloop/README.md",
            "ebpf/src/main.rs",
            "lab/scenarios/redirect.yaml",
            "deploy/base/rbac.yaml",
        ] {
            assert!(names.contains(&name), "{name}");
        }
    }
}
