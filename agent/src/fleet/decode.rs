//! Reads a node's document, of whichever version its agent is.
//!
//! For people, each of its texts is made plain: a node must not write to their terminal.

use super::scope::Form;
use crate::shared::plain;
use crate::shared::status;
use serde_json::Value;

/// Where a document has a status, which has the number of its form.
const STATUSES: [&str; 2] = ["", "/status"];

/// Reads a document. Errors: its form is newer, or it is no document; in one line.
pub fn decode(content: &[u8], form: Form) -> Result<Value, String> {
    let mut document: Value = serde_json::from_slice(content).map_err(|error| unknown(&error))?;
    if let Some(why) = newer(&document) {
        return Err(why);
    }
    if form.is_for_people() {
        plain::all(&mut document);
    }
    Ok(document)
}

/// An answer that is not as this version knows it.
pub fn unknown(error: &serde_json::Error) -> String {
    format!("its answer cannot be read ({error}): use the plugin of the agent's version")
}

/// Why a command failed, by what it printed on standard error.
pub fn failure(stderr: &[u8]) -> Option<String> {
    let stderr = String::from_utf8_lossy(stderr);
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines().next_back()?;
    // An older version does not know the verb, or one of its flags.
    if last.starts_with("For more information, try") {
        let error = lines().next()?.trim_start_matches("error: ");
        return Some(format!(
            "its epguard does not know the command ({error}): use the plugin of the agent's version"
        ));
    }
    Some(last.trim_start_matches("epguard: ").to_owned())
}

/// Names version and form of a status that only a later version reads.
fn newer(document: &Value) -> Option<String> {
    let own = status::Form::default();
    let mut statuses = STATUSES.iter().filter_map(|at| document.pointer(at));
    statuses.find_map(|status| {
        let form: status::Form = serde_json::from_value(status.get("form")?.clone()).ok()?;
        let version = status["version"].as_str().unwrap_or("of another version");
        (form > own).then(|| {
            format!(
                "epguard {version} answers in form {}, this plugin reads {}: use the plugin of that version",
                form.number(),
                own.number()
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::status::Status;
    use serde_json::json;

    fn read(document: &Value) -> Result<Value, String> {
        decode(document.to_string().as_bytes(), Form::Table)
    }

    #[test]
    fn a_newer_form_is_refused_wherever_the_status_stands() {
        let mut status = serde_json::to_value(Status::default()).unwrap();
        for document in [json!(status), json!({"status": status})] {
            assert_eq!(read(&document).as_ref(), Ok(&document));
        }
        status["form"] = 5.into();
        status["version"] = "0.9.0".into();
        for document in [json!(status), json!({"status": status})] {
            assert_eq!(
                read(&document).unwrap_err(),
                "epguard 0.9.0 answers in form 5, this plugin reads 2: use the plugin of that version"
            );
        }
    }

    #[test]
    fn a_nodes_texts_are_plain_for_people_and_exact_in_documents() {
        let document = br#"["a\u001b[2J\n"]"#;
        assert_eq!(decode(document, Form::Table), Ok(json!(["a\\u{1b}[2J\\n"])));
        assert_eq!(decode(document, Form::Json), Ok(json!(["a\u{1b}[2J\n"])));
    }

    #[test]
    fn the_usage_of_an_older_version_is_no_error_of_the_agent() {
        let failed = |stderr: &str| failure(stderr.as_bytes());
        let usage = "error: unexpected argument '--output' found\n\nUsage: epguard drops\n\nFor more information, try '--help'.\n";
        let why = "its epguard does not know the command (unexpected argument '--output' found): use the plugin of the agent's version";
        assert_eq!(failed(usage).as_deref(), Some(why));
        assert_eq!(failed("log\nepguard: no agent\n").as_deref(), Some("no agent"));
        assert_eq!(failed(""), None);
    }
}
