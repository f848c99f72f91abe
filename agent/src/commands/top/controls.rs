//! The settings that keys change.

/// The order of rows, the greatest or latest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    #[default]
    Rate,
    Total,
    Last,
}

impl Sort {
    /// The name on the screen.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Total => "packets",
            Self::Last => "time last seen",
        }
    }
}

/// The settings of the view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Controls {
    pub(super) sort: Sort,
    /// One row for each Service instead of each flow.
    pub(super) services: bool,
    pub(super) paused: bool,
    /// Whether the last line lists the keys.
    pub(super) help: bool,
    /// Rows above the first that is shown.
    pub(super) scroll: usize,
    /// Rows that fit on the screen.
    pub(super) page: usize,
}

impl Controls {
    /// Limits scrolling: the last of `rows` stays at the lower edge at most, now that `page` of them fit.
    pub(super) fn fit(&mut self, rows: usize, page: usize) {
        self.page = page;
        self.scroll = self.scroll.min(rows.saturating_sub(page));
    }
}
