//! Fuzzes what a node answers: its documents, and its archive.

use super::ask::decode;
use super::scope::FleetOutput;
use super::sysdump::parts_of_archive;
use super::sysdump::tests::archive;
use clap::builder::StyledStr;
use epguard_client::answers::audit::AuditReport;
use epguard_client::answers::drops::{DropsRow, drops_text};
use epguard_client::answers::status::Condition;
use epguard_client::answers::why::Explanation;
use epguard_client::shared::drops::Dropped;
use epguard_client::shared::plain::plain;
use epguard_client::shared::screen::Screen;
use epguard_client::shared::status::Status;
use epguard_fuzz::{run, words};
use serde::de::DeserializeOwned;
use serde_json::json;
use tar::EntryType;

fn seeds() -> Vec<Vec<u8>> {
    let kind = json!({"service": "shop/web", "endpoint": "10.244.1.10:8080", "protocol": "TCP", "reason": "reused", "outcome": "dropped",
        "meant": "shop/a", "hit": "other/b", "packets": 7, "bytes": 420, "openings": 3, "clients": ["10.244.2.5"],
        "firstMsAgo": 9, "lastMsAgo": 5});
    let status = serde_json::to_value(Status {
        version: "0.1.0".into(),
        node: "a".into(),
        ..Status::default()
    });
    let status = status.unwrap();
    let verdict = json!({"service": "shop/web", "port": 80, "protocol": "TCP", "verdict": "deny", "reason": "reused", "because": "b",
        "change": "c"});
    let finding = json!({"state": "stale", "service": "shop/web:80", "endpoint": "10.244.1.10:80",
        "protocol": "TCP", "meant": "shop/a", "hit": null, "reason": "reused", "connection": "SYN_SENT",
        "count": 1, "at": "x"});
    let documents = [
        json!({"problems": [{"what": "w", "remedy": "r"}], "status": status}),
        json!([kind]),
        json!({"ip": "10.0.0.1", "at": "t", "now": true, "mode": "enforce", "verdicts": [verdict], "owners": [], "evidence": [],
            "since": "s", "truncated": false}),
        json!({"node": "a", "endpoints": 1, "flows": 4, "findings": [finding],
            "notLookedAt": ["x"]}),
    ];
    documents
        .map(|document| document.to_string().into_bytes())
        .into()
}

/// A terminal on which texts are folded.
const NARROW: Screen = Screen {
    width: Some(60),
    full: false,
};

/// Reads a document, and checks that its text begins no line and moves no cursor.
fn shown<T: DeserializeOwned>(answer: &[u8], shown: impl FnOnce(&T) -> String) {
    if let Ok((_, document)) = decode(answer, "n", FleetOutput::Table) {
        let text = shown(&document);
        let bare = StyledStr::from(text).to_string();
        for line in bare.lines() {
            assert_eq!(plain(line), line);
        }
        assert!(!bare.contains('\r'), "{bare:?}");
    }
}

#[test]
fn answers_of_nodes() {
    let words =
        words("\\u001b[2J \\n \\r \u{9b} \u{202e} \"form\": null \"unknown\" 18446744073709551615");
    run("answers", seeds(), &words, |answer| {
        shown::<Condition>(answer, |condition| condition.to_text(NARROW));
        shown::<Vec<Dropped>>(answer, |all| {
            let rows: Vec<DropsRow> = all.iter().map(DropsRow::of_one_node).collect();
            drops_text(&rows, false, NARROW, "epguard")
        });
        shown::<Explanation>(answer, |explanation| explanation.to_text(NARROW));
        shown::<AuditReport>(answer, |report| report.to_text(NARROW));
    });
}

#[test]
fn archives_of_nodes() {
    let files =
        ["epguard-sysdump/a.txt", "epguard-sysdump/b.txt"].map(|name| (name, EntryType::Regular));
    let words = ["epguard-sysdump/", "../", "S", "L", "x", "g"];
    run("archive", [archive(&files)], &words, |archive| {
        let parts = parts_of_archive(archive).unwrap_or_default();
        assert!(parts.values().map(|part| part.len()).sum::<usize>() <= archive.len());
        assert!(
            parts
                .keys()
                .all(|name| !name.contains('/') && !name.starts_with('.'))
        );
    });
}
