//! `epguard breaker`: lists the denials that the breaker stops, and releases them by hand.

use crate::shared::args::{RunArgs, service_or_all};
use crate::shared::cards::columned_or_cards;
use crate::shared::output::{Column, Output, seconds};
use crate::shared::screen::Screen;
use crate::shared::status::{self, Request, StoppedDenials};
use anyhow::Result;
use clap::Args;

/// Options of `epguard breaker`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  epguard breaker                        which Services have stopped denials
  epguard breaker --release shop/web     carry them out; without a name, those of all Services
  epguard breaker -o json")]
pub struct BreakerArgs {
    /// Enforce the stopped denials of a Service, or of all, without a second list
    #[arg(long, value_name = "NAMESPACE/NAME", num_args = 0..=1, default_missing_value = "", value_parser = service_or_all)]
    pub release: Option<String>,
    /// Form of the output
    #[arg(short, long, default_value = "table")]
    pub output: Output,
    /// The agent's status socket.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Sends the request to the agent, and prints the stopped denials after it. Errors: no agent
/// answers.
pub fn run(args: BreakerArgs) -> Result<()> {
    let request = args
        .release
        .map_or(Request::Status, Request::ReleaseBreaker);
    let status = status::ask(&args.run.run_dir, &request)?;
    let screen = Screen::of_output(false);
    let text = args
        .output
        .text(&status.breaker, |services| table(services, screen))?;
    println!("{text}");
    Ok(())
}

/// A row or a card for each Service.
fn table(breaker: &[StoppedDenials], screen: Screen) -> String {
    if breaker.is_empty() {
        return "no denial is stopped".to_owned();
    }
    let columns: [Column<StoppedDenials>; 5] = [
        ("SERVICE", |service| service.service.clone()),
        ("STOPPED", |service| service.stopped.to_string()),
        ("READY RECENTLY", |service| {
            service.ready_recently.to_string()
        }),
        ("FOR", |service| seconds(service.since_ms)),
        ("WHY", |service| service.why.to_string()),
    ];
    columned_or_cards(screen, &columns, breaker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::screen::{TESTED, assert_fits};
    use epguard_core::state::StopReason;

    fn stopped(service: &str) -> StoppedDenials {
        StoppedDenials {
            service: service.into(),
            stopped: 3,
            ready_recently: 5,
            since_ms: 12_345,
            resource_version: 41,
            why: StopReason::MoreThanHalf,
        }
    }

    #[test]
    fn stopped_denials_are_one_line_per_service() {
        assert_eq!(table(&[], Screen::default()), "no denial is stopped");
        let text = table(&[stopped("shop/web")], Screen::default());
        let fields: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(fields, ["shop/web", "3", "5", "12", "s", "more-than-half"]);
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        for width in TESTED {
            let width = Some(width);
            let screen = Screen { width, full: false };
            let long = stopped("payments-of-the-north/api-gateway-of-all-teams");
            let text = table(&[stopped("shop/web"), long], screen);
            assert_fits(&text, screen);
        }
    }
}
