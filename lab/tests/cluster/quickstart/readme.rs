//! The commands in the README and in docs/install.md.

const PAGES: &str =
    concat!(include_str!("../../../../README.md"), include_str!("../../../../docs/install.md"));

/// The indented commands of a section. A blank line separates two of them.
pub(crate) fn commands(section: &str) -> Vec<String> {
    let heading = format!("\n## {section}\n");
    let (_, rest) = PAGES.split_once(&heading).unwrap();
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
