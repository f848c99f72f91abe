//! Sets a readable pace for a recording.

use super::cast::Event;

/// Pauses are shortened to this many seconds.
const LONGEST_PAUSE: f64 = 0.8;
/// Seconds between two lines that come at once.
const LINE: f64 = 0.11;
/// Seconds before a heading, to read the text above it.
const HEADING: f64 = 1.5;
/// Start of a heading in the demo, after its style.
const RULE: &str = "━━ ";
/// Escape sequence that moves up to write lines again; such lines keep their own pace.
const UP: &str = "\u{1b}[";

/// The events line by line: long pauses are shortened, lines that come at once follow each other, headings wait.
pub(super) fn paced(events: &[Event]) -> Vec<Event> {
    let mut paced = Vec::new();
    let (mut now, mut before) = (0.0, 0.0);
    for event in events {
        now += f64::min(event.at - before, LONGEST_PAUSE);
        before = event.at;
        let again = event.text.strip_prefix(UP).is_some_and(|rest| {
            rest.trim_start_matches(|c: char| c.is_ascii_digit())
                .starts_with('A')
        });
        if again {
            paced.push(Event {
                at: now,
                text: event.text.clone(),
            });
            continue;
        }
        for line in event.text.split_inclusive('\n') {
            // The first heading has only an empty line above it.
            if line.contains(RULE) && paced.len() > 1 {
                now += HEADING;
            }
            paced.push(Event {
                at: now,
                text: line.into(),
            });
            if line.ends_with('\n') {
                now += LINE;
            }
        }
    }
    paced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: f64, text: &str) -> Event {
        Event {
            at,
            text: text.into(),
        }
    }

    #[test]
    fn pauses_are_short_lines_follow_each_other_headings_wait_and_rewritten_lines_keep_their_pace() {
        let events = [
            event(0.0, "a\nb\n"),
            event(60.0, "c"),
            event(60.5, "d\n"),
            event(60.5, "\u{1b}[2Ae\nf\n"),
            event(60.5, "\u{1b}[1m━━ heading\n"),
        ];
        let found = paced(&events);
        let texts: Vec<&str> = found.iter().map(|event| &*event.text).collect();
        assert_eq!(
            texts,
            [
                "a\n",
                "b\n",
                "c",
                "d\n",
                "\u{1b}[2Ae\nf\n",
                "\u{1b}[1m━━ heading\n"
            ]
        );
        let times: Vec<String> = found.iter().map(|event| format!("{:.2}", event.at)).collect();
        assert_eq!(times, ["0.00", "0.11", "1.02", "1.52", "1.63", "3.13"]);
    }
}
