use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::super::sample::tests::{AFTER, BEFORE, rates};
use super::*;

/// The screen as text, without spaces at the ends of lines.
fn screen(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    terminal.draw(|frame| draw(frame, app)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let lines = buffer.content.chunks(width.into()).map(|cells| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

fn app() -> App {
    let mut app = App::default();
    app.handle_rates(rates(BEFORE, AFTER));
    app
}

#[test]
fn a_wide_screen_has_the_counters_at_its_side() {
    let wanted = "\
uroce top: devices 1, queue pairs 2   out 100pkt/s 1.00Mb/s   in 0pkt/s 0b/s   1 do not tell
  uroce0 of ib_write_bw 42: out 100pkt/s 1.00Mb/s, in 0pkt/s 0b/s
PROCESS     PID  DEVICE  QPN  PEER        TYPE  STATE  MSG/S  GBIT/S* RETR/S  RNR/S  ERROR  COUNTER                       PER S
ib_write_bw 42   uroce0  17   10.0.0.2 18 RC    RTS    11.0   0.00    2.00    1.00   -      sent_bytes                    125k
ib_write_bw 42   uroce0  19   -           UD    RTS    0      0.00    0       0      -      sent_pkts                     100
                                                                                            drop_bad_icrc                 3.00
s sort  / filter  space stop  ? help  q end
";
    assert_eq!(screen(&app(), 130, 7), wanted);
}

#[test]
fn addresses_are_whole_and_counters_give_way_to_them() {
    let shown = screen(&app(), 129, 7);
    assert!(shown.contains(" 10.0.0.2 18 ") && !shown.contains("COUNTER"), "{shown}");
}

#[test]
fn help_lies_over_the_table() {
    let mut app = app();
    app.handle_key(KeyEvent::from(KeyCode::Char('?')));
    let shown = screen(&app, 80, 24);
    assert!(shown.contains("┌Keys───") && shown.contains("stop and go on"), "{shown}");
    assert!(shown.contains("│ s      sort by the next column"), "{shown}");
    assert!(shown.contains("Esc takes it back"), "the box is as wide as its longest line: {shown}");
}

#[test]
fn the_last_line_says_what_is_stopped_and_left_out() {
    let mut app = app();
    for key in [KeyCode::Char(' '), KeyCode::Char('/'), KeyCode::Char('U')] {
        app.handle_key(KeyEvent::from(key));
    }
    assert!(screen(&app, 80, 10).contains("show only rows with: U_\n"));
    app.handle_key(KeyEvent::from(KeyCode::Enter));
    assert!(screen(&app, 80, 10).contains("STOPPED (space goes on)  only rows with \"U\""));
}

#[test]
fn no_screen_is_too_small() {
    let mut app = app();
    app.handle_key(KeyEvent::from(KeyCode::Char('?')));
    for (width, height) in [(1, 1), (5, 2), (20, 3), (80, 4), (300, 100)] {
        screen(&app, width, height);
    }
}

#[test]
fn numbers_have_three_digits() {
    let texts = [0.0, 0.5, 99.94, 1234.0, 5.6e6, 2.5e10].map(scaled);
    assert_eq!(texts, ["0", "0.50", "99.9", "1.23k", "5.60M", "25.0G"]);
}
