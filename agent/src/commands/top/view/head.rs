//! The first lines: the agent of this node, and its problems.

use super::super::model::Model;
use super::super::palette::{Palette, TITLE};
use crate::commands::status::{lease, view};
use ratatui::text::{Line, Span};

/// Two lines.
pub(super) fn head(model: &Model, palette: Palette) -> [Line<'static>; 2] {
    let status = &model.status;
    let who = format!("epguard on {}", model.who);
    let how = format!("   view {}   lease {}", view(status), lease(status));
    [
        Line::from(vec![Span::styled(who, TITLE), Span::raw(how)]),
        trouble(model, palette),
    ]
}

fn trouble(model: &Model, palette: Palette) -> Line<'static> {
    if let Some(trouble) = &model.trouble {
        return Line::styled(trouble.clone(), palette.bad());
    }
    let problems = &model.problems;
    let Some(first) = problems.first() else {
        return Line::styled("all is well", palette.good());
    };
    let count = match problems.len() {
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    };
    Line::from(vec![
        Span::styled(count, palette.bad()),
        Span::raw(format!(": {}", first.what)),
    ])
}
