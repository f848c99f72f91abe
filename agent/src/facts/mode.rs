//! The annotation `epguard.io/mode`: who wants to be left alone, and how far.

use super::{Ignored, Meta};
use epguard_common::Mode;

/// On a Namespace, a Service or a Pod: `off`, `observe` or `enforce`.
const ANNOTATION: &str = "epguard.io/mode";

impl Meta {
    /// Most that may be done about the object. It only ever lowers what the operator allows, so `enforce` means the same
    /// as no annotation. Whoever writes anything else wanted to be spared, but nobody knows how far: `observe`, which
    /// drops nothing and shows what would be.
    pub(super) fn bound(&self, ignored: &mut Ignored) -> Mode {
        let Some(text) = self.annotations.get(ANNOTATION) else {
            return Mode::Enforce;
        };
        Mode::parse(text).unwrap_or_else(|| {
            ignored.push(format!(
                "annotation {ANNOTATION}: {text:?} is none of off, observe, enforce; taken for observe"
            ));
            Mode::Observe
        })
    }
}
