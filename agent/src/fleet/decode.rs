//! Reads a node's document. For people, each of its texts is made plain: a node must not write to their terminal.

use super::scope::Form;
use crate::shared::plain;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a document. Errors: the cause, in one line.
pub fn decode<T: DeserializeOwned>(content: &[u8], form: Form) -> Result<T, String> {
    let read = || -> serde_json::Result<T> {
        let mut document: Value = serde_json::from_slice(content)?;
        if form.is_for_people() {
            plain::all(&mut document);
        }
        serde_json::from_value(document)
    };
    read()
        .map_err(|error| format!("its answer cannot be read ({error}): use a plugin of the agents' version"))
}
