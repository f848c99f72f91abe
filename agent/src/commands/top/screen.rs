//! The terminal: draws after each event, and restores the terminal however it ends.

use super::controls::{Then, press};
use super::model::Model;
use super::palette::Palette;
use super::sample::Sample;
use super::view;
use anyhow::{Context as _, Result};
use crossterm::event::{Event, EventStream};
use futures::StreamExt as _;
use ratatui::DefaultTerminal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::Receiver;

/// Follows the samples until a key or a signal ends it. Errors: the terminal is gone, or cannot draw.
pub(super) async fn show(model: Model, samples: Receiver<Sample>) -> Result<()> {
    // `try_init` sets a panic hook that restores the terminal, too.
    let shown = match ratatui::try_init().context("cannot draw on this terminal: use --batch") {
        Ok(terminal) => follow(terminal, model, samples).await,
        Err(error) => Err(error),
    };
    let restored = ratatui::try_restore().context("cannot restore the terminal: run `reset`");
    shown.and(restored)
}

async fn follow(
    mut terminal: DefaultTerminal,
    mut model: Model,
    mut samples: Receiver<Sample>,
) -> Result<()> {
    let palette = Palette::wanted();
    let mut events = EventStream::new();
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    loop {
        let drawn = terminal.draw(|frame| {
            let (rows, page) = view::extent(&model, frame.area());
            model.controls.fit(rows, page);
            view::draw(&model, palette, frame.area(), frame.buffer_mut());
        });
        drawn.context("cannot draw on this terminal any more")?;
        tokio::select! {
            event = events.next() => {
                let event = event.context("the terminal is gone")?.context("cannot read keys")?;
                if let Event::Key(key) = event
                    && press(&mut model.controls, key) == Then::Quit
                {
                    return Ok(());
                }
            }
            sample = samples.recv() => model.refresh(sample.context("nothing is read any more")?),
            _ = terminate.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}
