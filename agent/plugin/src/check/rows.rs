//! The rows of a check: each cell with what its caller and its agent have counted.

use super::cause::unseen;
use super::compare::{Row, compare, counted_of};
use super::evidence::{Evidence, NodeEvidence};
use super::plan::{Cell, Plan, Story};
use super::play::Played;
use epguard_client::answers::status::Problem;

/// All rows.
pub(super) fn rows(plan: &Plan, played: &Played) -> Vec<Row> {
    let cells = plan.cells(&played.families);
    cells.iter().map(|cell| row(cell, played)).collect()
}

fn row(cell: &Cell, played: &Played) -> Row {
    let place = (cell.node.clone(), cell.caller);
    let report = match played.reports.get(&place) {
        Some(Ok(report)) => report,
        Some(Err(problem)) => return Row::failed(cell, problem.clone()),
        None => return Row::failed(cell, not_made()),
    };
    let meant = &played.meant[&cell.node];
    if let (Story::Finished, Some(problem)) = (cell.story, &meant.delisted) {
        return Row::failed(cell, problem.clone());
    }
    let target = played.targets.get(cell);
    let calls = target.and_then(|target| report.to(&target.call));
    let (Some(target), Some(calls)) = (target, calls) else {
        return Row::failed(cell, not_made());
    };
    let unknown = NodeEvidence::default();
    let all = played.counted.get(&cell.node);
    let service = match cell.story {
        Story::LivePod => None,
        _ => target.service.as_deref(),
    };
    let endpoint = target.endpoint;
    let counted = match all {
        Some(all) => counted_of(all, service, endpoint, cell.protocol),
        None => Vec::new(),
    };
    let evidence = Evidence {
        cell,
        calls,
        service,
        endpoint,
        counted: &counted,
        node: played.nodes.get(&cell.node).unwrap_or(&unknown),
        meant: &meant.name,
        is_local: meant.is_local,
        stranger: &played.strangers[&cell.node],
    };
    if all.is_none() {
        return uncounted(&evidence);
    }
    compare(&evidence)
}

/// The row of a cell whose agent has not shown what it counted: that no call was seen proves
/// nothing.
fn uncounted(evidence: &Evidence<'_>) -> Row {
    match unseen(evidence) {
        Some(_) if evidence.cell.story.is_stale() => compare(evidence),
        Some(cause) => Row::failed(evidence.cell, cause),
        None => Row::failed(
            evidence.cell,
            Problem::new(
                "its agent did not show what it has counted",
                "run the check again",
            ),
        ),
    }
}

fn not_made() -> Problem {
    Problem::new(
        "the caller has made no such calls",
        "the plugin and the image need the same version",
    )
}
