//! Whole screens.

use super::super::controls::Sort;
use super::super::rates::Rate;
use super::fixture::model;
use super::*;
use crate::commands::status::problems;
use epguard_common::Mode;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

const COLOURFUL: Palette = Palette { colours: true };

const FLOWS: &str = "\
epguard on worker-1: enforce (by flags)   view as of 3 s ago   lease 12 s left
all is well

PACKETS/S             DROPPED    REJECTED  REDIRECTED    CAPTURED    OBSERVED
dead-backend              0.0         2.0         0.0         0.0         0.0
reused                   20.0         0.0         0.0         0.0         0.0
retired-backend           0.0         0.0         0.0         0.0         0.0
terminated                0.0         0.0         0.0         0.0         4.0
passed                 3005.0   not-denied 3000.0, established 5.0
denied/s     28.0                                              ▄        ▁▂▃▄▅▆█
highest      28.0                                              █ ▁▂▃▄▅▆████████

RATE/S SERVICE  ENDPOINT             REASON       OUTCOME  MEANT               HIT      PACKETS LAST
  12.0 shop/web 10.244.1.10:8080 TCP reused       dropped  shop/web-1          team-b/b      12   0s
   2.0 shop/api 10.244.1.11:443 TCP  dead-backend rejected shop/api-…6b5-x2x7k nobody       500   4s
   0.0 shop/web 10.244.1.12:8080 TCP dead-backend dropped  shop/web-2          nobody        11   0s
   0.0 unknown  [fd00::1]:80 TCP     terminated   observed old/job-1           nobody         1   2m






flows by rate: 1 to 4 of 4   ? keys  q quit";

const SHORT: &str = "\
epguard on worker-1: enforce (by flags)   view as of 3 s ago   lease 12 s left
all is well
RATE/S SERVICE  REASON       OUTCOME  MEANT                HIT      PACKETS LAST
  12.0 shop/web reused       dropped  shop/web-1           team-b/b      12   0s
   2.0 shop/api dead-backend rejected shop/api-7…6b5-x2x7k nobody       500   4s
   0.0 shop/web dead-backend dropped  shop/web-2           nobody        11   0s
   0.0 unknown  terminated   observed old/job-1            nobody         1   2m
flows by rate: 1 to 4 of 4   ? keys  q quit";

const TINY: &str = "\
epguard on worker-1:
all is well
RATE/S SERVICE
  12.0 shop/web
flows by rate: 1 to";

const SERVICES: &str = "\
RATE/S SERVICE  ENDPOINTS FLOWS REASONS             PACKETS LAST
   2.0 shop/api         1     1 dead-backend            500   4s
  12.0 shop/web         2     2 dead-backend,reused      23   0s
   0.0 unknown          1     1 terminated                1   2m
";

const TEXT: &str = "\
epguard on worker-1: enforce (by flags)   view as of 3 s ago   lease 12 s left
all is well

PACKETS/S             DROPPED    REJECTED  REDIRECTED    CAPTURED    OBSERVED
dead-backend              0.0         2.0         0.0         0.0         0.0
reused                   20.0         0.0         0.0         0.0         0.0
retired-backend           0.0         0.0         0.0         0.0         0.0
terminated                0.0         0.0         0.0         0.0         4.0
passed                 3005.0   not-denied 3000.0, established 5.0

RATE/S SERVICE  ENDPOINT             REASON       OUTCOME  MEANT                    HIT      PACKETS LAST
  12.0 shop/web 10.244.1.10:8080 TCP reused       dropped  shop/web-1               team-b/b      12   0s
   2.0 shop/api 10.244.1.11:443 TCP  dead-backend rejected shop/api-7d9f8c6b5-x2x7k nobody       500   4s
   0.0 shop/web 10.244.1.12:8080 TCP dead-backend dropped  shop/web-2               nobody        11   0s
   0.0 unknown  [fd00::1]:80 TCP     terminated   observed old/job-1                nobody         1   2m
";

fn screen(model: &mut Model, palette: Palette, width: u16, height: u16) -> Buffer {
    let area = Rect::new(0, 0, width, height);
    let (rows, page) = extent(model, area);
    model.controls.fit(rows, page);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(model, palette, frame.area(), frame.buffer_mut()))
        .unwrap();
    terminal.backend().buffer().clone()
}

fn lines(model: &mut Model, width: u16, height: u16) -> Vec<String> {
    let screen = screen(model, COLOURFUL, width, height);
    let cells: Vec<&str> = screen.content.iter().map(ratatui::buffer::Cell::symbol).collect();
    let lines = cells.chunks(width.into());
    lines.map(|line| line.concat().trim_end().to_owned()).collect()
}

#[test]
fn a_screen_of_flows() {
    let mut model = model();
    for tenths in (0..=280).step_by(20) {
        model.history.push(Rate { tenths });
    }
    assert_eq!(lines(&mut model, 100, 24).join("\n"), FLOWS);
}

#[test]
fn a_small_screen_keeps_the_table() {
    assert_eq!(lines(&mut model(), 80, 8).join("\n"), SHORT);
    assert_eq!(lines(&mut model(), 20, 5).join("\n"), TINY);
}

#[test]
fn every_screen_size_and_every_choice_can_be_drawn() {
    for (width, height) in [(1, 1), (20, 5), (80, 24), (200, 60), (1, 60), (200, 1)] {
        for services in [false, true] {
            let mut model = model();
            (model.controls.services, model.controls.scroll) = (services, usize::MAX);
            lines(&mut model, width, height);
            (model.controls.help, model.controls.paused) = (true, true);
            model.trouble = Some("agent does not answer: connection refused".into());
            model.agent.drops.clear();
            lines(&mut model, width, height);
        }
    }
}

#[test]
fn services_are_rows_of_their_own_and_the_chosen_view_is_named() {
    let mut model = model();
    (model.controls.services, model.controls.paused) = (true, true);
    model.controls.sort = Sort::Total;
    let lines = lines(&mut model, 80, 24);
    assert_eq!(lines[12..17].join("\n"), SERVICES);
    assert_eq!(
        lines[23],
        "Services by packets: 1 to 3 of 3   PAUSED   ? keys  q quit"
    );
}

#[test]
fn problems_stand_in_the_second_line() {
    let mut model = model();
    model.agent.status.synced = false;
    model.agent.status.refused = 1;
    model.agent.problems = problems(&model.agent.status);
    assert_eq!(
        lines(&mut model, 100, 24)[1],
        "2 problems: not every watch has shown a list yet, so there are no new denials"
    );
    model.trouble = Some("agent does not answer: connection refused".into());
    assert_eq!(
        lines(&mut model, 100, 24)[1],
        "agent does not answer: connection refused"
    );
}

#[test]
fn an_observing_node_has_the_curve_of_what_it_would_deny() {
    let mut model = model();
    assert!(lines(&mut model, 80, 24)[9].starts_with("denied/s"));
    model.agent.status.mode = Some(Mode::Observe);
    assert!(lines(&mut model, 80, 24)[9].starts_with("observed/s"));
}

#[test]
fn colours_can_be_switched_off() {
    let coloured = |palette| {
        let screen = screen(&mut model(), palette, 80, 24);
        screen
            .content
            .iter()
            .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(coloured(COLOURFUL));
    assert!(!coloured(Palette { colours: false }));
}

#[test]
fn plain_text_has_every_row_and_every_name_whole() {
    assert_eq!(text(&model()), TEXT);
}

#[test]
fn plain_text_states_that_nothing_was_denied() {
    let mut model = model();
    model.agent.drops.clear();
    assert!(text(&model).ends_with("\nnothing was denied, and nothing would have been\n"));
}
