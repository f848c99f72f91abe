//! Reads a node's document, of whichever version its agent is.
//!
//! For people, each of its texts is made plain: a node must not write to their terminal.

use super::scope::Form;
use crate::shared::plain;
use crate::shared::status;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Where a document has a status, which has the number of its form.
const STATUSES: [&str; 2] = ["", "/status"];

/// Why an answer is of no use. One line.
#[derive(Debug, PartialEq, Eq)]
pub enum Unread {
    /// The whole cause.
    Because(String),
    /// The answer is in a newer form: the whole cause, which stays as long as the agent does.
    Newer(String),
    /// The answer is not as this version knows it: the agent's version may be the cause.
    Foreign(String),
}

/// Reads a document. Errors: its form is newer, or it is not what this version knows.
pub fn decode<T: DeserializeOwned>(content: &[u8], form: Form) -> Result<T, Unread> {
    let foreign = |error: serde_json::Error| Unread::Foreign(format!("its answer cannot be read ({error})"));
    let mut document: Value = serde_json::from_slice(content).map_err(foreign)?;
    if let Some(why) = newer(&document) {
        return Err(Unread::Newer(why));
    }
    if form.is_for_people() {
        plain::all(&mut document);
    }
    serde_json::from_value(document).map_err(foreign)
}

/// Why a command printed no document, by what it printed on standard error.
pub fn failure(stderr: &[u8]) -> Option<Unread> {
    let stderr = String::from_utf8_lossy(stderr);
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines().next_back()?;
    // An older version does not know the verb, or one of its flags.
    if last.starts_with("For more information, try") {
        let first = lines().next().unwrap_or(last);
        let error = first.trim_start_matches("error: ");
        return Some(Unread::Foreign(format!(
            "its epguard does not know the command: {error}"
        )));
    }
    Some(Unread::Because(last.trim_start_matches("epguard: ").to_owned()))
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

    fn read(document: &Value) -> Result<Value, Unread> {
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
                Unread::Newer(
                    "epguard 0.9.0 answers in form 5, this plugin reads 2: use the plugin of that version"
                        .into()
                )
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
        assert_eq!(
            failed(usage),
            Some(Unread::Foreign(
                "its epguard does not know the command: unexpected argument '--output' found".into()
            ))
        );
        assert_eq!(
            failed("log\nepguard: no agent\n"),
            Some(Unread::Because("no agent".into()))
        );
        assert_eq!(failed(""), None);
    }
}
