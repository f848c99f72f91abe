//! Why packets pass while a pod may have the IP without showing it, in words.

use super::why_verdict::{WhyVerdict, pass};
use epguard_core::state::HolderShows;

/// Why packets pass if a pod of the Service may have the IP, which it does not show. What the pod
/// shows already changes nothing.
pub(super) fn possibly_held(name: &str, pod: &str, shown: HolderShows) -> WhyVerdict {
    let (cause, change) = match shown {
        HolderShows::Nothing => (
            "it shows no IP yet".to_owned(),
            format!("the IP that {pod} is given, shown by the API, or the end of {pod}"),
        ),
        HolderShows::MaybeOfOldSandbox => (
            "the IP that it shows may be that of its sandbox before".to_owned(),
            format!("a container that starts in {pod}, or the end of {pod}"),
        ),
        HolderShows::OtherFamily => (
            "it shows an IP of the other family alone".to_owned(),
            format!("an IP of this family that {pod} shows, or the end of {pod}"),
        ),
        HolderShows::Unreadable => (
            "it shows more addresses than are read, or one that cannot be read".to_owned(),
            format!("fewer networks in the annotations of {pod}, or the end of {pod}"),
        ),
    };
    pass(
        format!("{pod}, one of {name}'s own, may have the IP already without showing it: {cause}"),
        change,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What would change the verdict is not yet so.
    #[test]
    fn a_pod_that_shows_an_ip_is_not_asked_to_show_one() {
        for (shown, because, change) in [
            (
                HolderShows::Nothing,
                "it shows no IP yet",
                "the IP that shop/d is given, shown by the API, or the end of shop/d",
            ),
            (
                HolderShows::MaybeOfOldSandbox,
                "the IP that it shows may be that of its sandbox before",
                "a container that starts in shop/d, or the end of shop/d",
            ),
            (
                HolderShows::OtherFamily,
                "it shows an IP of the other family alone",
                "an IP of this family that shop/d shows, or the end of shop/d",
            ),
            (
                HolderShows::Unreadable,
                "it shows more addresses than are read, or one that cannot be read",
                "fewer networks in the annotations of shop/d, or the end of shop/d",
            ),
        ] {
            let verdict = possibly_held("shop/web", "shop/d", shown);
            let begin =
                "shop/d, one of shop/web's own, may have the IP already without showing it: ";
            assert_eq!(verdict.because, format!("{begin}{because}"));
            assert_eq!(verdict.change, change);
        }
    }
}
