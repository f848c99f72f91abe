//! The terminal that people read on: its width, and the colours by their meaning.

use clap::builder::styling::{AnsiColor, Style};
use std::io::{self, IsTerminal as _};
use textwrap::{Options, WordSeparator, WordSplitter, core::display_width, fill};

/// The style of what is well, and of packets that pass.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// The style of what is not, and of packets that are stopped.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// The style of what would be done, and of what waits.
pub const CAUTION: Style = AnsiColor::Yellow.on_default().bold();
/// The style of what leads elsewhere.
pub const ELSEWHERE: Style = AnsiColor::Blue.on_default().bold();

/// How many columns more a line is indented that continues another.
const CONTINUED: usize = 2;

/// How much of an answer is shown, and how wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Screen {
    /// Columns of the terminal. None without a terminal: then lines are as long as they are, so
    /// that scripts read whole ones.
    pub width: Option<usize>,
    /// Whether times and UIDs are shown in full (`-o wide`).
    pub full: bool,
}

impl Screen {
    /// The terminal at standard output.
    pub fn of_output(full: bool) -> Self {
        let size = terminal_size::terminal_size_of(io::stdout());
        let width = size.map(|(width, _)| usize::from(width.0));
        let is_terminal = io::stdout().is_terminal();
        Self {
            // A terminal without a size, as some consoles of CI, has 0.
            width: width.filter(|width| is_terminal && *width > 0),
            full,
        }
    }

    /// Whether no line of a text is wider.
    pub fn fits(self, text: &str) -> bool {
        let Some(width) = self.width else {
            return true;
        };
        text.lines().all(|line| display_width(line) <= width)
    }

    /// The text with its wider lines folded at spaces. Each line keeps its indent, and what
    /// continues it is indented more. A word that is wider stays whole, so that it can be copied.
    pub fn fold(self, text: &str) -> String {
        let Some(width) = self.width else {
            return text.to_owned();
        };
        let mut lines = Vec::new();
        for line in text.lines() {
            let indent = line.len() - line.trim_start_matches(' ').len() + CONTINUED;
            let indent = " ".repeat(indent);
            let options = Options::new(width)
                .subsequent_indent(&indent)
                .break_words(false)
                .word_separator(WordSeparator::AsciiSpace)
                .word_splitter(WordSplitter::NoHyphenation);
            lines.push(fill(line, options));
        }
        lines.join("\n")
    }
}

/// How long ago, in its largest useful unit: `8 s ago`.
pub fn ago(ms: u64) -> String {
    format!("{} ago", duration(ms))
}

/// A time in its largest useful unit: `8 s`, `5 min`.
pub fn duration(ms: u64) -> String {
    let (number, unit) = in_largest_unit(ms);
    format!("{number} {unit}")
}

/// The same without spaces, as kubectl shows ages: `8s`, `5m`.
pub fn short_age(ms: u64) -> String {
    let (number, unit) = in_largest_unit(ms);
    format!("{number}{}", &unit[..1])
}

fn in_largest_unit(ms: u64) -> (u64, &'static str) {
    match ms / 1000 {
        seconds @ 0..120 => (seconds, "s"),
        seconds @ 120..7200 => (seconds / 60, "min"),
        seconds @ 7200..172_800 => (seconds / 3600, "h"),
        seconds => (seconds / 86_400, "d"),
    }
}

/// Widths of terminals at which texts are tested.
#[cfg(any(test, feature = "testing"))]
pub const TESTED: [usize; 3] = [60, 80, 120];

/// Checks that no line of the text is wider than the screen, except one of a single word.
///
/// # Panics
///
/// If a line is wider.
#[cfg(any(test, feature = "testing"))]
pub fn assert_fits(text: &str, screen: Screen) {
    for line in text.lines() {
        assert!(
            screen.fits(line) || !line.trim().contains(' '),
            "wider than {:?}: {line}\nin\n{text}",
            screen.width
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(width: usize) -> Screen {
        Screen {
            width: Some(width),
            full: false,
        }
    }

    #[test]
    fn a_wide_line_is_folded_at_spaces_below_its_indent() {
        let text = "  ! one two-three four\nfive";
        assert_eq!(
            screen(14).fold(text),
            "  ! one\n    two-three\n    four\nfive"
        );
        assert_eq!(screen(22).fold(text), text);
        assert_eq!(Screen::default().fold(text), text);
    }

    #[test]
    fn colours_have_no_width() {
        let text = format!("{BAD}one{BAD:#} two");
        assert!(screen(7).fits(&text));
        assert_eq!(screen(7).fold(&text), text);
        assert!(!screen(6).fits(&text));
    }

    #[test]
    fn a_name_stays_whole_on_a_narrow_screen() {
        let name = "payments/api-gateway-7c9f8d6b5-abcde";
        assert!(screen(20).fold(&format!("hit {name}")).contains(name));
    }

    #[test]
    fn ages_have_one_unit() {
        let ages = [0, 119_999, 120_000, 7_200_000, 172_800_000].map(ago);
        assert_eq!(
            ages,
            ["0 s ago", "119 s ago", "2 min ago", "2 h ago", "2 d ago"]
        );
    }
}
