//! Transport protocols, as the API names them.

use strum::{EnumString, FromRepr, IntoStaticStr};

/// Transport protocols of a Service, by their IP protocol number.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, EnumString, FromRepr, IntoStaticStr,
)]
#[strum(serialize_all = "UPPERCASE")]
#[allow(missing_docs, reason = "the names explain the fields")]
#[repr(u8)]
pub enum Protocol {
    Tcp = 6,
    Udp = 17,
    Sctp = 132,
}

impl Protocol {
    /// As the API writes it; TCP is the default (core/v1 ServicePort).
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("") => Some(Self::Tcp),
            Some(text) => text.parse().ok(),
        }
    }

    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The IP protocol number.
    pub const fn number(self) -> u8 {
        self as u8
    }
}
