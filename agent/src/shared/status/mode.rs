//! The mode in the status, and its source.

use epguard_common::Mode;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use strum::{Display, IntoStaticStr};

/// The source of the modes in force. `epguard mode` may have been used since.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Display, IntoStaticStr, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ModeSource {
    /// A document without the modes, or of another version.
    #[default]
    Unknown,
    /// The agent's own command line.
    Flags,
    /// The `ConfigMap` as an earlier agent read it: this one has not read it yet.
    #[serde(rename = "configmap, read by an earlier agent")]
    #[strum(serialize = "configmap, read by an earlier agent")]
    Pinned,
    /// The lower of the command line and of the modes that an earlier agent left in the maps: the API server refuses the
    /// `ConfigMap`, or it has errors. What cannot be read must not raise a mode.
    #[serde(rename = "the lower of flags and maps")]
    #[strum(serialize = "the lower of flags and maps")]
    Lower,
    /// The `ConfigMap`.
    ConfigMap,
    /// The `ConfigMap`, because the node is a canary.
    #[serde(rename = "configmap, canary")]
    #[strum(serialize = "configmap, canary")]
    Canary,
}

impl ModeSource {
    /// Whether a `ConfigMap` has set the modes, even one that can't be read any more: the next agent starts from them.
    #[must_use]
    pub const fn is_config_map(self) -> bool {
        matches!(self, Self::Pinned | Self::Lower | Self::ConfigMap | Self::Canary)
    }

    /// The name in the status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// For a mode that cannot be read.
pub(super) const UNKNOWN: &str = "unknown";

/// Writes a mode, or [`UNKNOWN`].
#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
pub(super) fn or_unknown<S: Serializer>(mode: &Option<Mode>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(mode.map_or(UNKNOWN, Mode::as_str))
}

/// Describes that.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    let names = Mode::ALL.map(Mode::as_str).into_iter().chain([UNKNOWN]);
    json_schema!({"type": "string", "enum": names.collect::<Vec<_>>()})
}
