//! Tables as the local commands print them.

use comfy_table::{Table, presets::NOTHING};

/// A table without lines.
#[must_use]
pub fn table(header: Vec<&str>, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(header).add_rows(rows);
    table.trim_fmt()
}
