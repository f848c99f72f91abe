//! The settings that keys change, and the effect of each key. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

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

/// The keys, in the last line of the screen.
pub(super) const HELP: &str =
    "q quit  r rate  t packets  l last  s Services  p pause  arrows PgUp PgDn  ? back";

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Go,
    Quit,
}

/// Carries a key out. [`Controls::fit`] limits how far it scrolls.
pub(super) fn press(controls: &mut Controls, key: KeyEvent) -> Then {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => return Then::Quit,
        _ if control => {}
        KeyCode::Char('q') | KeyCode::Esc => return Then::Quit,
        KeyCode::Char('r') => sort(controls, Sort::Rate),
        KeyCode::Char('t') => sort(controls, Sort::Total),
        KeyCode::Char('l') => sort(controls, Sort::Last),
        KeyCode::Char('s') => {
            controls.services = !controls.services;
            controls.scroll = 0;
        }
        KeyCode::Char('p') => controls.paused = !controls.paused,
        KeyCode::Char('?') => controls.help = !controls.help,
        KeyCode::Up => controls.scroll = controls.scroll.saturating_sub(1),
        KeyCode::Down => controls.scroll = controls.scroll.saturating_add(1),
        KeyCode::PageUp => controls.scroll = controls.scroll.saturating_sub(controls.page),
        KeyCode::PageDown => controls.scroll = controls.scroll.saturating_add(controls.page),
        KeyCode::Home => controls.scroll = 0,
        KeyCode::End => controls.scroll = usize::MAX,
        _ => {}
    }
    Then::Go
}

/// Changes the order, and scrolls to its first row.
fn sort(controls: &mut Controls, by: Sort) {
    controls.sort = by;
    controls.scroll = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(codes: &[KeyCode]) -> Controls {
        let mut controls = Controls::default();
        for code in codes {
            controls.fit(20, 8);
            assert_eq!(press(&mut controls, KeyEvent::from(*code)), Then::Go, "{code:?}");
        }
        controls.fit(20, 8);
        controls
    }

    #[test]
    fn q_escape_and_control_c_quit_and_a_plain_c_does_not() {
        let press = |code, modifiers| press(&mut Controls::default(), KeyEvent::new(code, modifiers));
        assert_eq!(press(KeyCode::Char('q'), KeyModifiers::NONE), Then::Quit);
        assert_eq!(press(KeyCode::Esc, KeyModifiers::NONE), Then::Quit);
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Then::Quit);
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::NONE), Then::Go);
        assert_eq!(press(KeyCode::Char('q'), KeyModifiers::CONTROL), Then::Go);
    }

    #[test]
    fn scrolling_ends_at_the_first_and_at_the_last_row() {
        use KeyCode::{Down, End, Home, PageDown, PageUp, Up};
        for (codes, scroll) in [
            (&[Up][..], 0),
            (&[Down, Down, Up], 1),
            (&[PageDown], 8),
            (&[PageDown, PageDown, PageDown], 12),
            (&[PageDown, PageDown, PageUp], 4),
            (&[End], 12),
            (&[End, Up], 11),
            (&[End, Down, Home], 0),
        ] {
            assert_eq!(after(codes).scroll, scroll, "{codes:?}");
        }
    }

    #[test]
    fn another_order_begins_at_its_first_row() {
        for (key, order) in [('r', Sort::Rate), ('t', Sort::Total), ('l', Sort::Last)] {
            let controls = after(&[KeyCode::Down, KeyCode::Char(key)]);
            assert_eq!((controls.sort, controls.scroll), (order, 0));
        }
    }

    #[test]
    fn the_keys_fit_into_a_line() {
        assert!(HELP.len() <= 80, "{}", HELP.len());
    }

    #[test]
    fn services_pause_and_help_are_switched_on_and_off() {
        let switched = |codes: &[KeyCode]| {
            let controls = after(codes);
            (controls.services, controls.paused, controls.help)
        };
        let keys = ['s', 'p', '?'].map(KeyCode::Char);
        assert_eq!(switched(&keys), (true, true, true));
        assert_eq!(switched(&[keys, keys].concat()), (false, false, false));
    }
}
