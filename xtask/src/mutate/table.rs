//! The results as a Markdown table, in the form of `docs/assurance.md`.

use std::fmt::Write;

use super::patch::Mutation;

/// One row for each mutation with its result.
pub(crate) fn of<'a>(results: impl Iterator<Item = (&'a Mutation, String)>) -> String {
    let mut table = String::from("| reverted fix | test | result |\n|---|---|---|\n");
    for (mutation, result) in results {
        let _ = writeln!(
            table,
            "| {} | `{}` | {result} |",
            mutation.row,
            mutation.test_name()
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate::patch;

    #[test]
    fn each_row_names_the_mutation_the_test_and_the_result() {
        let mutation = patch::named("row");
        let table = of(std::iter::once((&mutation, "caught".into())));
        assert_eq!(table.lines().last(), Some("| R | `a::b` | caught |"));
    }
}
