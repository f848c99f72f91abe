//! A table as a plot: a bar for each row's median, with a mark at its minimum, and a colour for each series.

use std::fmt::Write as _;

use super::figures::{median, minimum};
use super::form::{Better, Row, Table};
use super::table::figure;

/// Pixels.
const LETTER: f64 = 7.0;
const BARS: f64 = 420.0;
const FIGURES: f64 = 130.0;
const BAR: f64 = 14.0;
const GAP: f64 = 12.0;
const TOP: f64 = 62.0;
/// As `docs/datapath.svg` has them: seen by people who see few colours, and on white and on dark pages.
const COLOURS: [&str; 4] = ["#1f77b4", "#e08214", "#2a9d4a", "#8452a5"];

impl Table {
    /// An SVG document.
    pub(super) fn plot(&self, machine: &str) -> String {
        let series = self.series();
        let longest = self.names().into_iter().map(|name| name.chars().count()).max();
        let labels = LETTER * count(longest.unwrap_or_default()) + 20.0;
        let most = self.rows.iter().filter_map(|row| median(&row.samples));
        let most = most.fold(f64::MIN_POSITIVE, f64::max);
        let (mut y, mut body) = (TOP, String::new());
        for name in self.names() {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.name == name).collect();
            let height = BAR * count(rows.len());
            text(&mut body, labels - 8.0, y + height / 2.0 + 4.0, "end", name);
            for row in rows {
                let colour = series.iter().position(|series| *series == row.series);
                let colour = COLOURS[colour.unwrap_or_default() % COLOURS.len()];
                bar(&mut body, row, [labels, y], most, colour);
                y += BAR;
            }
            y += GAP;
        }
        let (width, height) = (labels + BARS + FIGURES, y + 22.0);
        let better = match self.better {
            Better::Lower => "lower is better",
            Better::Higher => "higher is better",
        };
        let title = format!("{}: {}, {better}", self.title, self.unit);
        let mut head = String::new();
        text(&mut head, 12.0, 22.0, "start", &title);
        legend(&mut head, &series, labels);
        let foot = format!("Bar: median. Mark: minimum. {machine}");
        text(&mut body, 12.0, height - 10.0, "start", &foot);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{head}{body}</svg>\n"
        )
    }
}

fn bar(body: &mut String, row: &Row, [x, y]: [f64; 2], most: f64, colour: &str) {
    let figures = median(&row.samples).zip(minimum(&row.samples));
    let Some((median, minimum)) = figures else {
        let missing = row.missing.as_deref().unwrap_or("not measured");
        return text(body, x + 6.0, y + BAR - 3.0, "start", missing);
    };
    let at = |value: f64| BARS * value / most;
    let (long, mark) = (at(median), x + at(minimum));
    let _ = writeln!(
        body,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{long:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\n\
         <rect x=\"{mark:.1}\" y=\"{y:.1}\" width=\"1.5\" height=\"{:.1}\" fill=\"#000000\"/>",
        BAR - 2.0,
        BAR - 2.0,
    );
    let shown = figure(median);
    text(body, x + long + 6.0, y + BAR - 4.0, "start", &shown);
}

/// None for a single series.
fn legend(head: &mut String, series: &[&str], mut x: f64) {
    if series.len() < 2 {
        return;
    }
    for (name, colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let _ = writeln!(
            head,
            "<rect x=\"{x}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
        );
        text(head, x + 17.0, 46.0, "start", name);
        x += 17.0 + 9.0 * count(name.len() + 2);
    }
}

fn text(into: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        into,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#222222\">{text}</text>"
    );
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_medians_and_a_row_without_samples_says_why() {
        let table = Table {
            name: "t".into(),
            title: "A < B".into(),
            unit: "ns".into(),
            better: Better::Lower,
            notes: Vec::new(),
            rows: vec![
                Row::new("long", "IPv4", vec![10.0, 40.0, 40.0]),
                Row::new("half", "IPv4", vec![20.0]),
                Row::missing("half", "IPv6", "not installed"),
            ],
        };
        let plot = table.plot("A CPU");
        for part in [
            "A &lt; B: ns, lower is better",
            "width=\"420.0\"",
            "width=\"210.0\"",
            ">not installed<",
            ">IPv6<",
            "A CPU",
        ] {
            assert!(plot.contains(part), "{part}: {plot}");
        }
        assert_eq!(plot.matches("<rect").count(), 1 + 2 + 2 * 2);
    }
}
