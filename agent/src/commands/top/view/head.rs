//! The first lines: the agent of this node, and its problems.

use super::super::model::Model;
use super::super::palette::{Palette, TITLE};
use crate::commands::status::{lease, view};
use crate::shared::output::count;
use ratatui::text::{Line, Span};

/// Two lines.
pub(super) fn head(model: &Model, palette: Palette) -> [Line<'static>; 2] {
    let status = &model.agent.status;
    let who = format!("epguard on {}", model.agent.who);
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
    let problems = &model.agent.problems;
    let Some(first) = problems.first() else {
        return Line::styled("all is well", palette.good());
    };
    Line::from(vec![
        Span::styled(count(problems.len(), "problem"), palette.bad()),
        Span::raw(format!(": {}", first.what)),
    ])
}
