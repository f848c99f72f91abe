//! Options about which endpoints may be denied at all.

use clap::Args;
use epguard_core::facts::Cidr;
use epguard_core::state::Ranges;

/// Which endpoints may be denied.
#[derive(Debug, Args)]
pub struct RangeArgs {
    /// Deny only endpoints in these ranges, IPv4 and IPv6 alike [default: all]
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = cidr)]
    protect_cidr: Vec<Cidr>,
    /// Never deny endpoints in these ranges, protected or not
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = cidr)]
    exclude_cidr: Vec<Cidr>,
}

impl RangeArgs {
    /// The options in the form that the state uses.
    #[must_use]
    pub fn ranges(&self) -> Ranges {
        Ranges { protect: self.protect_cidr.clone(), exclude: self.exclude_cidr.clone() }
    }
}

fn cidr(text: &str) -> Result<Cidr, &'static str> {
    Cidr::parse(text).ok_or("not a range of IPs: write ADDRESS/LENGTH, as in 10.244.0.0/16 or fd00:10::/32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        ranges: RangeArgs,
    }

    #[test]
    fn ranges_may_be_given_with_commas_and_repeatedly() {
        let args = ["epguard", "--exclude-cidr", "10.1.0.0/16", "--exclude-cidr=fd00::/8,10.2.0.0/16"];
        let ranges = Cli::try_parse_from(args).map(|cli| cli.ranges.ranges()).ok().unwrap();
        let written: Vec<String> = ranges.exclude.iter().map(ToString::to_string).collect();
        assert_eq!(written, ["10.1.0.0/16", "fd00::/8", "10.2.0.0/16"]);
        assert!(ranges.protect.is_empty());
    }

    #[test]
    fn a_bad_range_is_refused_in_one_line_with_the_correct_form() {
        for bad in ["banana", "10.0.0.0", "10.0.0.0/33", ""] {
            let error = Cli::try_parse_from(["epguard", "--protect-cidr", bad]).err().unwrap().to_string();
            let line = error.lines().next().unwrap();
            assert!(
                line.contains("--protect-cidr <CIDR>") && line.contains("as in 10.244.0.0/16"),
                "{error}"
            );
        }
    }
}
