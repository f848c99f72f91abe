//! Text of other authors in log lines: the beginning of it.

/// How much of a value is shown.
const VALUE: usize = 64;

/// The beginning of a value, in quotation marks.
pub(super) fn brief(value: &str) -> String {
    let shown = cut(value, VALUE);
    let rest = if shown.len() < value.len() { "..." } else { "" };
    format!("{shown:?}{rest}")
}

/// At most so many octets of a text, whole characters only.
#[must_use]
pub fn cut(text: &str, octets: usize) -> &str {
    let mut end = octets.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_between_characters() {
        assert_eq!(brief("of"), r#""of""#);
        assert_eq!(brief(&"a".repeat(65)), format!("{:?}...", "a".repeat(64)));
        assert_eq!(brief(&"ä".repeat(40)), format!("{:?}...", "ä".repeat(32)));
        assert_eq!(cut(&format!("a{}", "ä".repeat(40)), 64).len(), 63);
    }
}
