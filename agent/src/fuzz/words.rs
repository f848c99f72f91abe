//! Command lines, requests at the status socket, and reports of the programs.

use crate::cli::Cli;
use crate::daemon::report::ring_buffer;
use crate::shared::status::Request;
use clap::{CommandFactory as _, FromArgMatches as _};
use epguard_common::Event;
use epguard_fuzz::{corpus, run, words};

const FLAGS: &str = "\n -- --mode --reason-mode --lease --max-view-age --protect-cidr --exclude-cidr --pod-interfaces \
    --api-rate --api-burst --metrics-listen --mode-policy --answers-per-suspect --xdp --clsact-delay \
    --hooks enforce reused=off 0 18446744073709551616 -1 10.0.0.0/33 ::/0 [::]:0 a/b * [ {";

#[test]
fn command_lines() {
    // Built once, as it checks itself then.
    let mut command = Cli::command();
    command.build();
    run(
        "command-line",
        corpus("command-line"),
        &words(FLAGS),
        move |input| {
            let text = String::from_utf8_lossy(input);
            let words = std::iter::once("epguard").chain(text.split('\n'));
            if let Ok(matches) = command.clone().try_get_matches_from(words) {
                let _ = Cli::from_arg_matches(&matches);
            }
        },
    );
}

#[test]
fn requests_at_the_status_socket() {
    let words = words("\"release-breaker\" \"history\": figures drops shop/web :: \n \0 \u{2028}");
    run("request", corpus("request"), &words, |input| {
        // The socket's reader takes one line.
        let line = String::from_utf8_lossy(
            input
                .split_inclusive(|octet| *octet == b'\n')
                .next()
                .unwrap_or_default(),
        );
        if let Ok(request) = serde_json::from_str::<Request>(&line) {
            // What was understood is understood again.
            let line = serde_json::to_string(&request).unwrap_or_default();
            assert_eq!(serde_json::from_str::<Request>(&line).ok(), Some(request));
        }
    });
}

#[test]
fn records_of_the_ring_buffer() {
    let size = size_of::<Event>();
    let seeds = vec![vec![0; size], vec![0xff; size - 1], (0..=255).collect()];
    run("event", seeds, &[], move |octets| {
        let event = ring_buffer::parse(octets);
        assert_eq!(event.is_some(), octets.len() == size);
        let _ = format!("{event:?}");
    });
}
