//! Text in the JSON of an object.

use serde::Deserialize;
use std::borrow::{Borrow, Cow};
use std::ops::Deref;

/// A text that is part of the JSON, and copied only if it has escapes there. A `Cow` in a list or a map would always be a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(super) struct RawText<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for RawText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for RawText<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// For maps: both compare and hash as their text.
impl Borrow<str> for RawText<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for RawText<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_text_with_escapes_is_copied() {
        let texts: Vec<RawText<'_>> = serde_json::from_str(r#"["web", "a\nb", ""]"#).unwrap();
        let is_copy = |text: &RawText<'_>| matches!(text.0, Cow::Owned(_));
        assert_eq!(texts.iter().map(is_copy).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(texts.iter().map(|text| &**text).collect::<Vec<_>>(), ["web", "a\nb", ""]);
    }
}
