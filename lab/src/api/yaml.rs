//! Reads YAML and JSON.

use serde_json::Value;

/// Reads every document of a YAML (or JSON) text; empty ones are skipped. Only `true` and `false` are booleans, so that a
/// Pod may be called `n` or `on` (kubectl still wants quotes there).
pub fn documents(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    serde_saphyr::from_multiple_with_options(text, serde_saphyr::options! { strict_booleans: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_that_other_yaml_takes_for_booleans_are_text() {
        let text = "---\n{name: n}\n---\n---\nname: on\nport: 80\nup: true\n";
        assert_eq!(
            documents(text).unwrap(),
            [json!({"name": "n"}), json!({"name": "on", "port": 80, "up": true})]
        );
        assert!(documents("a: [").is_err());
    }
}
