//! The form of the status document: which versions of epguard read each other's.

use super::Status;
use anyhow::ensure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The form of the document that this version writes and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Form(u32);

impl Default for Form {
    fn default() -> Self {
        Self(2)
    }
}

impl Form {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Reads a document. Errors: it is no status, or of a newer form.
pub(super) fn parse(document: &[u8]) -> anyhow::Result<Status> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        form: Form,
    }
    let (Head { form }, own) = (serde_json::from_slice(document)?, Form::default());
    ensure!(form <= own, "its form is {}, and this epguard reads {} at most", form.0, own.0);
    Ok(serde_json::from_slice(document)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_a_newer_form_is_refused_by_its_number() {
        let mut document = serde_json::to_value(Status::default()).unwrap();
        assert!(parse(document.to_string().as_bytes()).is_ok());
        document["form"] = 3.into();
        let error = parse(document.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "its form is 3, and this epguard reads 2 at most");
    }
}
