//! One value in the form that was asked for: `-o table|json|yaml`.

use anyhow::Context as _;
use clap::ValueEnum;
use serde::Serialize;
use std::io;

/// Form of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Table,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
}

impl Output {
    /// The value as text without a newline at the end; `table` writes the form for people.
    ///
    /// Errors: none for the documents of this program, whose keys are all text.
    pub fn text<T: Serialize>(self, value: &T, table: impl FnOnce(&T) -> String) -> anyhow::Result<String> {
        Ok(match self {
            Self::Table => table(value),
            Self::Json => serde_json::to_string_pretty(value).context("cannot write JSON")?,
            Self::Yaml => {
                let text = serde_saphyr::to_string(value).context("cannot write YAML")?;
                text.trim_end().to_owned()
            }
        })
    }
}

/// Whether an error is only that the reader of the output has left (`epguard lint | head`).
#[must_use]
pub fn is_unread(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_output_form_has_the_same_content() {
        let value = BTreeMap::from([("address", vec!["10.0.0.1", "yes"])]);
        let text = |output: Output| {
            output
                .text(&value, |value| format!("{} rows", value.len()))
                .unwrap()
        };
        assert_eq!(text(Output::Table), "1 rows");
        assert_eq!(
            text(Output::Json),
            "{\n  \"address\": [\n    \"10.0.0.1\",\n    \"yes\"\n  ]\n}"
        );
        assert_eq!(text(Output::Yaml), "address:\n- \"10.0.0.1\"\n- \"yes\"");
    }
}
