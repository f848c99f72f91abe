//! The commands that the README shows.

/// Those of a section: what stands indented, apart where a blank line parts it.
pub(crate) fn commands(section: &str) -> Vec<String> {
    let readme = include_str!("../../../README.md");
    let heading = format!("\n## {section}\n");
    let (_, rest) = readme.split_once(&heading).unwrap();
    let text = rest.split("\n## ").next().unwrap();
    let mut commands = vec![String::new()];
    for line in text.lines() {
        match (line.strip_prefix("    "), commands.last_mut()) {
            (Some(command), Some(last)) => last.extend([command, "\n"]),
            (None, Some(last)) if !last.is_empty() => commands.push(String::new()),
            _ => {}
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}
