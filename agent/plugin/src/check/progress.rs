//! What the check does, on standard error while it does it.

use epguard_client::shared::output::complain;

/// Prints a step.
pub(super) fn progress(step: &str) {
    complain(&format!("epguard check: {step}"));
}
