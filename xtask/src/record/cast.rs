//! The asciicast format, version 2: a header, then one JSON array for each piece of output.

use std::num::NonZeroU16;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::json;

/// The output of a program in a terminal.
#[derive(Debug, PartialEq)]
pub(super) struct Recording {
    /// Width of the terminal in characters.
    pub(super) columns: NonZeroU16,
    pub(super) events: Vec<Event>,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    /// Seconds since the start.
    pub(super) at: f64,
    /// With escape sequences.
    pub(super) text: String,
}

impl Recording {
    /// As a file. Times are whole milliseconds.
    pub(super) fn to_cast(&self, title: &str) -> String {
        let header = json!({
            "version": 2, "width": self.columns.get(), "height": 30, "idle_time_limit": 1.0, "title": title,
        });
        let events = self.events.iter().map(|event| {
            let at = (event.at * 1000.0).round() / 1000.0;
            json!([at, "o", event.text])
        });
        let lines = std::iter::once(header).chain(events);
        lines.map(|line| line.to_string() + "\n").collect()
    }

    /// Errors: the file is not asciicast 2.
    pub(super) fn from_cast(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let header = serde_json::from_str(lines.next().context("the recording is empty")?);
        let header: Header = header.context("the recording is not asciicast 2")?;
        ensure!(header.version == 2, "the recording is not asciicast 2");
        let events = lines.map(|line| match serde_json::from_str::<(f64, String, String)>(line) {
            Ok((at, kind, text)) if kind == "o" => Ok(Event { at, text }),
            _ => bail!("not a piece of output: {line}"),
        });
        Ok(Self {
            columns: header.width,
            events: events.collect::<Result<_>>()?,
        })
    }
}

/// The first line of a file.
#[derive(Deserialize)]
struct Header {
    version: u8,
    width: NonZeroU16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let text = "\u{1b}[1mbold\u{1b}[0m ━\r\n".to_owned();
        let events = vec![Event { at: 0.125, text }];
        let recording = Recording {
            columns: NonZeroU16::new(88).unwrap(),
            events,
        };
        let cast = recording.to_cast("t");
        assert_eq!(
            cast.lines().nth(1),
            Some(r#"[0.125,"o","\u001b[1mbold\u001b[0m ━\r\n"]"#)
        );
        assert_eq!(Recording::from_cast(&cast).unwrap(), recording);
    }

    #[test]
    fn other_files_are_refused() {
        for text in [
            "",
            "x",
            "{\"version\": 1, \"width\": 80}",
            "{\"version\":2,\"width\":80}\n[1,\"i\",\"x\"]",
        ] {
            assert!(Recording::from_cast(text).is_err(), "{text}");
        }
    }
}
