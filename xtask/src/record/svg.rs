//! An animated SVG of a recording: CSS animations, no script, so that it plays as an image in a README.

use std::fmt::Write as _;

use super::screen::{Film, Line, Run, Style};

/// Lines that are visible at once.
const VISIBLE: usize = 30;
/// Width of a character, in pixels.
const CHARACTER: usize = 8;
/// Height of a line, in pixels.
const LINE: usize = 18;
/// From the top of a line to the foot of its letters, in pixels.
const BASE: usize = 13;
/// Space around the text, in pixels.
const MARGIN: usize = 14;
/// Seconds during which the last picture stays.
const LAST: f64 = 6.0;

/// Legible on white: black, red, green, yellow, blue, magenta, cyan, grey.
const COLOURS: [&str; 8] = [
    "#1f2328", "#b91c1c", "#15803d", "#8a5a00", "#1d4ed8", "#86198f", "#0e6f85", "#57606a",
];
const DIM: &str = "#57606a";

/// Draws the film. Without animations (reduced motion, or a viewer that knows none) it is the last picture.
pub(super) fn draw(film: &Film, title: &str) -> String {
    let columns = film
        .lines
        .iter()
        .flat_map(|line| &line.runs)
        .map(|run| run.column + run.width);
    let inner = (columns.max().unwrap_or(0) * CHARACTER, VISIBLE * LINE);
    let (width, height) = (inner.0 + 2 * MARGIN, inner.1 + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n<title>{}</title>\n",
        escaped(title)
    );
    let spans = spans(&film.lines);
    let _ = writeln!(svg, "<style>\n{}</style>", style(film, &spans));
    let _ = writeln!(
        svg,
        "<rect x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"#fff\" stroke=\"#d0d7de\"/>",
        width - 1,
        height - 1
    );
    let _ = writeln!(
        svg,
        "<svg x=\"{MARGIN}\" y=\"{MARGIN}\" width=\"{}\" height=\"{}\">\n<g class=\"a s\">",
        inner.0, inner.1
    );
    for (number, span) in spans.iter().enumerate() {
        let gone = if span.1.is_some() { " o" } else { "" };
        let _ = writeln!(svg, "<g class=\"a k{number}{gone}\">");
        for line in film.lines.iter().filter(|line| (line.from, line.until) == *span) {
            for run in &line.runs {
                let _ = writeln!(svg, "{}", text(run, line.row));
            }
        }
        svg.push_str("</g>\n");
    }
    svg + "</g>\n</svg>\n</svg>\n"
}

/// The time spans in which lines are visible, each once.
fn spans(lines: &[Line]) -> Vec<(f64, Option<f64>)> {
    let mut spans: Vec<(f64, Option<f64>)> = Vec::new();
    for line in lines {
        if spans.iter().rev().all(|span| *span != (line.from, line.until)) {
            spans.push((line.from, line.until));
        }
    }
    spans
}

fn style(film: &Film, spans: &[(f64, Option<f64>)]) -> String {
    let length = film.length + LAST;
    let percent = |at: f64| format!("{:.3}%", at / length * 100.0);
    let mut style = format!(
        "text{{font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:{};white-space:pre}}\n\
         .a{{animation-duration:{length:.2}s;animation-timing-function:step-end;animation-iteration-count:infinite}}\n\
         .o{{visibility:hidden}}.b{{font-weight:bold}}.d{{fill:{DIM}}}\n",
        COLOURS[0]
    );
    for (number, colour) in COLOURS.iter().enumerate() {
        let _ = writeln!(style, ".c{number}{{fill:{colour}}}");
    }
    let mut offsets = String::from("0%{transform:none}");
    let mut last = 0;
    for (at, height) in &film.heights {
        let above = height.saturating_sub(VISIBLE) * LINE;
        if above != last {
            last = above;
            let _ = write!(offsets, "{}{{transform:translateY(-{above}px)}}", percent(*at));
        }
    }
    let _ = writeln!(
        style,
        ".s{{transform:translateY(-{last}px);animation-name:s}}@keyframes s{{{offsets}}}"
    );
    for (number, (from, until)) in spans.iter().enumerate() {
        let until = until.map(|until| format!("{}{{visibility:hidden}}", percent(until)));
        let _ = writeln!(
            style,
            ".k{number}{{animation-name:k{number}}}@keyframes k{number}{{0%{{visibility:hidden}}{}{{visibility:visible}}{}}}",
            percent(*from),
            until.unwrap_or_default()
        );
    }
    style + "@media (prefers-reduced-motion:reduce){.a{animation:none}}\n"
}

/// A run with its width fixed, so that columns meet in any font.
fn text(run: &Run, row: usize) -> String {
    let (x, y, width) = (run.column * CHARACTER, row * LINE + BASE, run.width * CHARACTER);
    let class = class(run.style);
    format!(
        "<text x=\"{x}\" y=\"{y}\" textLength=\"{width}\"{class}>{}</text>",
        escaped(&run.text)
    )
}

fn class(style: Style) -> String {
    let mut classes = Vec::new();
    if style.bold {
        classes.push("b".to_owned());
    }
    if style.dim {
        classes.push("d".to_owned());
    }
    if let Some(colour) = style.colour {
        classes.push(format!("c{}", usize::from(colour) % COLOURS.len()));
    }
    if classes.is_empty() {
        return String::new();
    }
    format!(" class=\"{}\"", classes.join(" "))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(row: usize, text: &str, from: f64, until: Option<f64>) -> Line {
        let style = Style {
            bold: true,
            dim: false,
            colour: Some(1),
        };
        let run = Run {
            column: 2,
            width: text.len(),
            text: text.into(),
            style,
        };
        Line {
            row,
            runs: vec![run],
            from,
            until,
        }
    }

    #[test]
    fn each_line_is_visible_in_its_time_and_the_picture_follows_the_last_line() {
        let film = Film {
            lines: vec![line(0, "a <b>", 0.0, Some(2.0)), line(31, "c", 2.0, None)],
            heights: vec![(0.0, 1), (2.0, 32)],
            length: 4.0,
        };
        let svg = draw(&film, "A & B");
        for part in [
            "<title>A &amp; B</title>",
            "@keyframes k0{0%{visibility:hidden}0.000%{visibility:visible}20.000%{visibility:hidden}}",
            "@keyframes k1{0%{visibility:hidden}20.000%{visibility:visible}}",
            "@keyframes s{0%{transform:none}20.000%{transform:translateY(-36px)}}",
            "<g class=\"a k0 o\">\n<text x=\"16\" y=\"13\" textLength=\"40\" class=\"b c1\">a &lt;b&gt;</text>",
            "<g class=\"a k1\">\n<text x=\"16\" y=\"571\"",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!svg.contains("<script"), "{svg}");
    }
}
