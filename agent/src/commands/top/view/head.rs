//! The first lines: the agent of this node, and its problems.

use super::super::look::{Look, TITLE};
use super::super::model::Model;
use crate::commands::status::{lease, problems, view};
use ratatui::text::{Line, Span};

/// Two lines.
pub(super) fn head(model: &Model, look: Look) -> [Line<'static>; 2] {
    let status = &model.status;
    let who = format!(
        "epguard on {}: {} (by {})",
        status.node, status.mode, status.mode_source
    );
    let how = format!("   view {}   lease {}", view(status), lease(status));
    [
        Line::from(vec![Span::styled(who, TITLE), Span::raw(how)]),
        trouble(model, look),
    ]
}

fn trouble(model: &Model, look: Look) -> Line<'static> {
    if let Some(trouble) = &model.trouble {
        return Line::styled(trouble.clone(), look.bad());
    }
    let problems = problems(&model.status);
    let Some(first) = problems.first() else {
        return Line::styled("all is well", look.good());
    };
    let count = match problems.len() {
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    };
    Line::from(vec![
        Span::styled(count, look.bad()),
        Span::raw(format!(": {}", first.what)),
    ])
}
