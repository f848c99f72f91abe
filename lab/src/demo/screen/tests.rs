//! The demo's screens on a virtual terminal: the whole story with the answers of a good run, drawn
//! as they come.

use super::*;
use crate::demo::{STORY, tables};
use crate::scenario;
use crate::scenario::format::Step;
use std::time::Duration;

const WIDTHS: [usize; 3] = [60, 80, 120];
/// Rows of the smallest usual terminal.
const ROWS: usize = 24;

/// What is printed while the story is played.
fn recorded(form: Form) -> String {
    let story = scenario::parse(STORY, "demo.yaml").unwrap();
    let mut screen = Screen::new(Vec::new(), form);
    screen.heading(&story.title);
    let mut all = Vec::new();
    for step in &story.steps {
        match &step.value {
            Step::Heading(text) => screen.heading(text),
            Step::Say(text) => screen.say(text),
            Step::Note(text) => screen.detail(text),
            Step::Burst(burst) => all.push(play(&mut screen, burst)),
            _ => {}
        }
    }
    screen.lines(
        "  Service  domain-a/report-again   endpoint  10.244.1.10 (pod report-h8tsd), not ready",
    );
    screen.command("bpftool map dump pinned /sys/fs/bpf/epguard-lab-0123456789-0123456789-0123456789/v3/OWNERS");
    screen.field(
        "  value  ",
        &"dead_uid=ab000000…(domain-a/report-h8tsd) port=80 ".repeat(4),
    );
    screen.claim(
        false,
        "all 36 calls to A were answered by A",
        "12 times B, 12 timed out, 12 refused",
    );
    let titles: Vec<&str> = all.iter().map(|played| &*played.burst.title).collect();
    screen.table(&tables::table(&all, screen.width()), &titles);
    String::from_utf8(screen.out).unwrap()
}

/// The answers of a burst, shown one by one. Those of the first caller differ, so that its line
/// gets longer and, at the end, shorter again.
fn play<'a>(screen: &mut Screen<Vec<u8>>, burst: &'a Burst) -> Played<'a> {
    let rounds = usize::try_from(burst.rounds).unwrap();
    let callers = burst.callers().count();
    let mut played = Played {
        burst,
        answers: vec![vec![None; rounds]; callers],
        reports: Vec::new(),
    };
    screen.answers(&played);
    for round in 0..rounds {
        for (caller, (group, _)) in burst.callers().enumerate() {
            let outcome = match &*group.sees {
                _ if caller == 0 && round == 3 => Outcome::Unreachable,
                "nothing" => Outcome::TimedOut,
                "refused" => Outcome::Refused,
                pod => Outcome::Reply(pod.to_owned()),
            };
            played.answers[caller][round] = Some(Answer {
                outcome,
                latency: Duration::from_millis(801),
                local: None,
            });
            if (caller, round) != (callers - 1, rounds - 1) {
                screen.answers(&played);
            }
        }
    }
    played.answers[0][3] = played.answers[0][2].clone();
    screen.answers(&played);
    played
}

/// The rows of a terminal that shows all of it. A line feed goes to the first column, as by a
/// terminal's driver.
fn rendered(recorded: &str, width: usize) -> Vec<String> {
    let columns = u16::try_from(width).unwrap();
    let mut terminal = vt100::Parser::new(1_000, columns, 0);
    terminal.process(recorded.replace('\n', "\r\n").as_bytes());
    let rows: Vec<String> = terminal.screen().rows(0, columns).collect();
    let used = rows.iter().rposition(|row| !row.is_empty()).unwrap();
    rows[..=used].to_vec()
}

/// By how many lines the cursor goes up, each time.
fn ups(recorded: &str) -> Vec<usize> {
    let mut ups = Vec::new();
    for sequence in recorded.split("\x1b[").skip(1) {
        let end = sequence.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        if sequence[end..].starts_with('A') {
            ups.push(sequence[..end].parse().unwrap());
        }
    }
    ups
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in WIDTHS {
        let form = Form::of(Some(width), false, false);
        for line in recorded(form).lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn a_terminal_shows_each_row_once_however_often_it_was_drawn() {
    for width in WIDTHS {
        let once = recorded(Form::of(Some(width), false, false));
        let drawn = recorded(Form::of(Some(width), true, true));
        let rows = rendered(&drawn, width);
        for (row, line) in rows.iter().zip(once.lines()) {
            assert_eq!(row.trim_end(), line.trim_end(), "{width}");
        }
        assert_eq!(rows.len(), once.lines().count(), "{width}");
    }
}

#[test]
fn the_cursor_goes_up_only_where_lines_have_room_and_never_beyond_the_screen() {
    assert_eq!(ups(&recorded(Form::of(Some(60), true, true))), [0; 0]);
    assert_eq!(ups(&recorded(Form::of(Some(80), false, true))), [0; 0]);
    for width in [80, 120] {
        let ups = ups(&recorded(Form::of(Some(width), true, true)));
        assert!(ups.len() > 100, "{width}: {}", ups.len());
        assert!(
            ups.iter().all(|up| (1..ROWS).contains(up)),
            "{width}: {ups:?}"
        );
    }
}

#[test]
fn answers_are_beside_their_caller_on_an_ordinary_terminal() {
    let screen = recorded(Form::of(Some(80), true, false));
    let line = "  process on node-a → Service report  ××××××××××××  12 timed out, median 801 ms\n";
    assert!(screen.contains(line), "{screen}");
    let narrow = recorded(Form::of(Some(60), true, false));
    let lines =
        "  process on node-a → Service report\n    ××××××××××××  12 timed out, median 801 ms\n";
    assert!(narrow.contains(lines), "{narrow}");
}

#[test]
fn only_a_terminal_of_80_columns_that_moves_its_cursor_is_drawn_over() {
    for (columns, obeys, live, width) in [
        (None, true, false, 88),
        (Some(60), true, false, 60),
        (Some(79), true, false, 79),
        (Some(80), true, true, 80),
        (Some(80), false, false, 80),
        (Some(200), true, true, 88),
    ] {
        let form = Form::of(columns, obeys, false);
        assert_eq!(
            (form.live, form.width),
            (live, width),
            "{columns:?} {obeys}"
        );
    }
}
