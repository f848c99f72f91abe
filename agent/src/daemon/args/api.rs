//! Options about what the agent asks of the API server.

use crate::daemon::report::kube_events::Announce;
use anyhow::{Result, ensure};
use clap::{Args, value_parser};
use epguard_core::freshness::requests_per_second;
use std::time::Duration;

/// How much of the API server the agent uses.
#[derive(Debug, Args)]
pub struct ApiArgs {
    /// Requests per second to the API server, 1 to 1000; more wait [default: 5, more with a --max-view-age below 9]
    #[arg(long = "api-rate", value_name = "REQUESTS_PER_SECOND", value_parser = value_parser!(u32).range(1..=1000))]
    pub rate: Option<u32>,
    /// Requests that may be sent at once after a pause, 1 to 10000
    #[arg(long = "api-burst", value_name = "REQUESTS", default_value = "100", value_parser = value_parser!(u32).range(1..=10_000))]
    pub burst: u32,
    /// What to write as Events into the API
    #[arg(long, value_name = "WHAT", default_value = "all")]
    pub events: Announce,
}

/// Far above what an agent needs with the other defaults.
const RATE: u32 = 5;

impl ApiArgs {
    /// Requests a second. Errors: fewer than keep a view fresh, so that nothing could be denied.
    pub fn rate(&self, watches: usize, max_view_age: Duration) -> Result<u32> {
        let needed = requests_per_second(watches, max_view_age);
        let rate = self.rate.unwrap_or(RATE.max(needed));
        let age = max_view_age.as_secs();
        ensure!(
            rate >= needed,
            "--api-rate {rate} cannot keep the view fresh for --max-view-age {age}, which may take {needed} requests a \
             second: raise one of the two"
        );
        Ok(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        api: ApiArgs,
    }

    fn rate(options: &[&str], max_view_age: u64) -> Result<u32, String> {
        let Line { api } = Line::parse_from([&["agent"], options].concat());
        let rate = api.rate(5, Duration::from_secs(max_view_age));
        rate.map_err(|error| error.to_string())
    }

    #[test]
    fn the_default_rate_is_far_above_an_agents_need_and_rises_for_a_short_view() {
        let Line { api } = Line::parse_from(["agent"]);
        assert_eq!((api.burst, api.events), (100, Announce::All));
        assert_eq!([300, 30, 8, 3].map(|age| rate(&[], age)), [5, 5, 5, 13].map(Ok));
        assert_eq!(rate(&["--api-rate", "100"], 3), Ok(100));
        assert_eq!(rate(&["--api-rate", "2"], 30), Ok(2));
    }

    #[test]
    fn a_rate_too_low_to_keep_the_view_fresh_is_refused_in_one_line() {
        assert_eq!(
            rate(&["--api-rate", "1"], 30).unwrap_err(),
            "--api-rate 1 cannot keep the view fresh for --max-view-age 30, which may take 2 requests a second: raise one \
             of the two"
        );
    }

    #[test]
    fn an_invalid_value_is_refused_with_the_valid_ones() {
        for (option, value, known) in [
            ("--api-rate", "0", "1..=1000"),
            ("--api-rate", "1001", "1..=1000"),
            ("--api-rate", "fast", "invalid digit"),
            ("--api-burst", "0", "1..=10000"),
            ("--api-burst", "10001", "1..=10000"),
            ("--events", "some", "none, breaker, all"),
        ] {
            let error = Line::try_parse_from(["agent", option, value]).unwrap_err();
            let error = error.to_string();
            let said = error.lines().take(2).collect::<String>();
            assert!(said.contains(known), "{option} {value}: {error}");
        }
    }
}
