//! Options about what the agent asks of the API server.

use crate::announce::Announce;
use clap::{Args, value_parser};

/// How much of the API server the agent uses.
#[derive(Debug, Args)]
pub struct ApiArgs {
    /// Requests to the API server, whatever for, 1 to 1000; more wait
    #[arg(long = "api-rate", value_name = "REQUESTS_PER_SECOND", default_value = "5", value_parser = value_parser!(u32).range(1..=1000))]
    pub rate: u32,
    /// Requests that may come at once after a pause, 1 to 10000
    #[arg(long = "api-burst", value_name = "REQUESTS", default_value = "20", value_parser = value_parser!(u32).range(1..=10_000))]
    pub burst: u32,
    /// What to write as Events into the API
    #[arg(long, value_name = "WHAT", default_value = "all")]
    pub events: Announce,
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

    #[test]
    fn the_defaults_are_far_above_what_an_agent_needs() {
        let Line { api } = Line::parse_from(["agent"]);
        assert_eq!((api.rate, api.burst, api.events), (5, 20, Announce::All));
    }

    #[test]
    fn a_value_that_makes_no_sense_is_refused_with_what_does() {
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
