//! The settings that keys change.

/// The order of rows, the greatest or latest first; its name on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::Display)]
pub(super) enum Sort {
    #[default]
    #[strum(serialize = "rate")]
    Rate,
    #[strum(serialize = "packets")]
    Total,
    #[strum(serialize = "time last seen")]
    Last,
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
