//! `cargo xtask record`: a run of the demo as a recording that plays in a browser.
//!
//! The demo runs under a pseudo-terminal (`terminal`). Its output with the times goes to docs/demo.cast (`cast`), for
//! asciinema and its players. `pace` shortens pauses and spreads bursts, `screen` computes the text and time of each line,
//! and `svg` draws that as an animation without scripts, docs/demo.svg.

mod cast;
mod pace;
mod screen;
mod svg;
mod terminal;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::lab;
use crate::process::root;
use cast::Recording;

const CAST: &str = "docs/demo.cast";
const SVG: &str = "docs/demo.svg";
/// The title that screen readers use for the picture.
const TITLE: &str = "The epguard demo";

/// What to make.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only draw docs/demo.svg anew from docs/demo.cast; needs no root
    #[arg(long)]
    draw: bool,
}

/// Records the demo and draws it. Nothing is written if the demo fails.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if !args.draw {
        let (recording, status) = terminal::record(lab::built("demo")?)?;
        if !status.success() {
            bail!("the demo failed ({status}): run `cargo xtask demo`");
        }
        write(CAST, &recording.to_cast(TITLE))?;
    }
    let cast = fs::read_to_string(root().join(CAST)).with_context(|| format!("cannot read {CAST}"))?;
    write(SVG, &draw(&cast)?)?;
    Ok(ExitCode::SUCCESS)
}

/// An asciicast as an animated SVG. Pure.
fn draw(cast: &str) -> Result<String> {
    let recording = Recording::from_cast(cast)?;
    let film = screen::film(&pace::paced(&recording.events), recording.columns);
    Ok(svg::draw(&film, TITLE))
}

fn write(file: &str, text: &str) -> Result<()> {
    fs::write(root().join(file), text).with_context(|| format!("cannot write {file}"))?;
    println!("{file}: {} kB", text.len() / 1000);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_in_the_repository_is_drawn_from_the_recording_beside_it() {
        let file = |name: &str| fs::read_to_string(root().join(name)).unwrap();
        let drawn = draw(&file(CAST)).unwrap();
        assert!(drawn == file(SVG), "run `cargo xtask record --draw`");
        assert!(drawn.len() < 300_000, "{} bytes", drawn.len());
    }
}
