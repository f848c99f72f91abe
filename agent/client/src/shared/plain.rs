//! Text that another machine wrote, made safe for a terminal.

use serde_json::Value;
use std::borrow::Cow;

/// The text with each control character and each invisible character as an escape (`\n`, `\u{1b}`):
/// it stays on its line, and shows all that it contains.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Makes each text of a document plain, its keys too. Returns whether one was not.
pub fn all(document: &mut Value) -> bool {
    match document {
        Value::String(text) => match plain(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(shown) => {
                *text = shown;
                true
            }
        },
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |changed, item| all(item) | changed),
        Value::Object(entries) => {
            let mut changed = entries
                .values_mut()
                .fold(false, |changed, value| all(value) | changed);
            if entries.keys().any(|key| key.contains(is_hidden)) {
                let old = std::mem::take(entries).into_iter();
                entries.extend(old.map(|(key, value)| (plain(&key).into_owned(), value)));
                changed = true;
            }
            changed
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Control characters, and those of Unicode that reorder, hide or join what is written.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hidden_characters_are_escaped_and_all_others_stay() {
        for (text, shown) in [
            (
                "shop/web: 10.0.0.1 \"ä\" 名前",
                "shop/web: 10.0.0.1 \"ä\" 名前",
            ),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{1b}[2J\u{9b}2J\u{7f}", "\\u{1b}[2J\\u{9b}2J\\u{7f}"),
            ("\u{202e}x\u{200b}\u{2028}", "\\u{202e}x\\u{200b}\\u{2028}"),
        ] {
            assert_eq!(plain(text), shown);
        }
    }

    #[test]
    fn every_text_of_a_document_is_made_plain() {
        let mut document = json!({"a\n": ["b\n", {"c": "d\n"}, 1, null]});
        assert!(all(&mut document));
        assert_eq!(document, json!({"a\\n": ["b\\n", {"c": "d\\n"}, 1, null]}));
        assert!(!all(&mut document));
    }
}
