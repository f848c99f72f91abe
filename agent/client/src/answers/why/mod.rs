//! The verdict about an IP, now or earlier, and the evidence step by step. Pure.
//!
//! ```text
//! Chronicle + WhyQuestion -> explain (verdict, owners, evidence) -> Explanation -> text
//! Translators -> why denied packets pass all the same -^
//! ```

mod evidence;
mod explain;
mod fix;
mod owners;
mod possibly_held;
mod question;
mod text;
mod verdict;
mod why_verdict;

pub use evidence::EvidenceEvent;
pub use explain::{Explanation, causes_of_passing, explain};
pub use fix::fix;
pub use owners::OwnerSpan;
pub use question::{WhyMoment, WhyQuestion, WhySubject};
pub use why_verdict::WhyVerdict;

/// Five seconds of an IP, of which nothing but this view is known.
#[cfg(test)]
fn chronicle(ip: &str, view: epguard_core::state::View) -> epguard_core::history::Chronicle {
    epguard_core::history::Chronicle {
        ip: ip.parse().unwrap(),
        steps: vec![],
        view,
        began_ms: 0,
        now_ms: 5_000,
        wall_ms: 1_000_000,
        truncated: true,
        mode: "observe".into(),
    }
}
