//! `epguard-lab demo`: the story of kubernetes #109414, shown as it happens.

mod act;
mod calls;
mod screen;
mod stage;
mod table;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use epguard_common::Mode;

use calls::Tally;
use screen::{Colour, Screen};
use stage::Stage;
use table::Row;

/// Calls of each act; with a pause of 50 ms between them, every packet of each is reported (100 events a second and suspect).
const CALLS: usize = 100;

/// Show the story of kubernetes #109414 in the lab: observe, enforce, and observe again
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Plays the story. The exit code says whether all of it held.
pub fn run(_: &Args) -> Result<ExitCode> {
    let start = Instant::now();
    let screen = Screen::new();
    println!(
        "{}",
        screen.paint(
            Colour::Bold,
            "epguard demo: a Service that reaches a stranger (kubernetes #109414)"
        )
    );
    screen::line(
        "Nodes, pods and clients are network namespaces on this kernel, nftables is kube-proxy, the API server is",
    );
    screen::line(
        "embedded, the agent is the real one. Objects as recorded on Kubernetes 1.36 (lab/traces/d-job-ip-reuse).",
    );
    let mut stage = Stage::set()?;
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };

    screen.act(1, "Domain A serves");
    stage.introduce_a(screen)?;
    let before = stage.calls_to_a(screen, CALLS / 4)?;
    must(
        before.right == before.calls,
        "before anything happened A did not answer every call".into(),
    );

    screen.act(
        2,
        "A's Job ends: its pod is finished, and stays in the EndpointSlice, ready",
    );
    stage.finish_job(screen)?;

    screen.act(3, "Domain B's pod gets the IP");
    stage.start_b(screen)?;

    let mut acts = Vec::new();
    let modes = [
        (
            Mode::Observe,
            "observe: calls for A are answered by B, and epguard names both pods",
        ),
        (
            Mode::Enforce,
            "enforce: none reaches B, whose own clients notice nothing",
        ),
        (Mode::Observe, "observe again: as before"),
    ];
    for (number, (mode, title)) in (4..).zip(modes) {
        screen.act(number, &format!("epguard mode {title}"));
        let act = stage.act(screen, mode)?;
        for (holds, what) in act.checks(mode) {
            must(holds, format!("{}: {what}", mode.as_str()));
        }
        acts.push(act);
    }

    println!();
    let customers: Vec<&Tally> = acts.iter().map(|act| &act.to_b).collect();
    table::write(
        screen,
        &[
            Row::of_a("calls to A, before B had its IP", &before),
            Row::of_a("calls to A, observe", &acts[0].to_a),
            Row::of_a("calls to A, enforce", &acts[1].to_a),
            Row::of_a("calls to A, observe again", &acts[2].to_a),
            Row::of_b("calls to B, all the time", &customers),
        ],
    );
    stage.dump(screen)?;
    println!();
    for what in &wrong {
        screen::line(screen.paint(Colour::Red, format!("✗ {what}")));
    }
    if wrong.is_empty() {
        let seconds = start.elapsed().as_secs();
        screen::line(screen.paint(Colour::Green, format!("✓ All of it held. {seconds} s.")));
    }
    Ok(if wrong.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
