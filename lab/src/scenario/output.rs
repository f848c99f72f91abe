//! The output of a command of epguard, compared with the texts that it must contain and those that
//! it must not.

use std::time::Duration;

use anyhow::Result;

use super::format::{ABSENT, Output};
use super::stage::Stage;
use super::tell::await_and_hold;

/// Waits until the output is as expected.
pub(super) fn await_output(stage: &Stage, expected: &Output) -> Result<()> {
    let expected = expanded(stage, expected)?;
    let hold = if expected.has.is_empty() {
        ABSENT
    } else {
        Duration::ZERO
    };
    await_and_hold(hold, || {
        let text = stage.agent.output(&expected.of)?;
        Ok(mismatch(&expected, &text)
            .map(|what| format!("{what} the output of epguard {}:\n{text}", expected.of)))
    })
}

/// With the values of the names in each text.
fn expanded(stage: &Stage, output: &Output) -> Result<Output> {
    let names = &stage.cluster.names;
    let mut expanded = output.clone();
    expanded.of = names.expand_text(&output.of)?;
    for text in expanded.has.iter_mut().chain(&mut expanded.lacks) {
        *text = names.expand_text(text)?;
    }
    Ok(expanded)
}

/// The first text that is missing, or that should be.
fn mismatch(expected: &Output, text: &str) -> Option<String> {
    if let Some(missing) = expected.has.iter().find(|part| !text.contains(*part)) {
        return Some(format!("{missing:?} is not in"));
    }
    let unwanted = expected.lacks.iter().find(|part| text.contains(*part))?;
    Some(format!("{unwanted:?} is in"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_has_each_text_and_none_of_the_unwanted_ones() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        for (has, lacks, wrong) in [
            (&["one", "two"][..], &["three"][..], None),
            (&["one", "three"], &[], Some("\"three\" is not in")),
            (&["one"], &["three", "two"], Some("\"two\" is in")),
        ] {
            let expected = Output {
                of: "status".into(),
                has: texts(has),
                lacks: texts(lacks),
            };
            assert_eq!(mismatch(&expected, "one\ntwo\n").as_deref(), wrong);
        }
    }
}
