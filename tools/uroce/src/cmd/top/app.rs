//! What `uroce top` shows, and what keys do to it.

use std::cmp::Ordering;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::cells::cells;
use super::sample::{QpRow, Rates};

/// Rows that page up and page down move by.
const PAGE: usize = 20;

/// Letters of a filter at most.
const MOST_LETTERS: usize = 64;

/// The column that queue pairs are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// Bits per second, the most first.
    #[default]
    Bits,
    /// Messages per second, the most first.
    Messages,
    /// Retransmissions per second, the most first.
    Retransmitted,
    /// Name of the program, then process and number.
    Process,
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Sort::Bits => Sort::Messages,
            Sort::Messages => Sort::Retransmitted,
            Sort::Retransmitted => Sort::Process,
            Sort::Process => Sort::Bits,
        }
    }

    fn compare(self, one: &QpRow, other: &QpRow) -> Ordering {
        let most_first = |of: fn(&QpRow) -> f64| of(other).total_cmp(&of(one));
        let by_rate = match self {
            Sort::Bits => most_first(|qp| qp.bits),
            Sort::Messages => most_first(|qp| qp.messages),
            Sort::Retransmitted => most_first(|qp| qp.retransmitted),
            Sort::Process => one.process.cmp(&other.process),
        };
        let name = |qp: &QpRow| (qp.pid, qp.qpn.parse::<u64>().unwrap_or(0));
        by_rate.then_with(|| name(one).cmp(&name(other)))
    }
}

/// The state of the screen.
#[derive(Debug, Default)]
pub struct App {
    rates: Rates,
    sort: Sort,
    filter: String,
    /// The filter while it is typed.
    edited: Option<String>,
    paused: bool,
    help: bool,
    scroll: usize,
    ended: bool,
}

impl App {
    /// Takes new rates, unless the screen is stopped.
    pub fn handle_rates(&mut self, rates: Rates) {
        if !self.paused {
            self.rates = rates;
            self.rates.qps.sort_by(|one, other| self.sort.compare(one, other));
        }
    }

    /// Does what the key says.
    pub fn handle_key(&mut self, key: KeyEvent) {
        let ends = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        self.ended |= ends;
        match self.edited.take() {
            _ if ends => {}
            Some(text) => self.edit(text, key.code),
            None => self.command(key.code),
        }
    }

    fn edit(&mut self, mut text: String, key: KeyCode) {
        match key {
            KeyCode::Enter => {
                (self.filter, self.scroll) = (text, 0);
                return;
            }
            KeyCode::Esc => return,
            KeyCode::Backspace => _ = text.pop(),
            KeyCode::Char(letter) if text.chars().count() < MOST_LETTERS => text.push(letter),
            _ => {}
        }
        self.edited = Some(text);
    }

    fn command(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char('q') => self.ended = true,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Esc => self.help = false,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.edited = Some(self.filter.clone()),
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.rates.qps.sort_by(|one, other| self.sort.compare(one, other));
            }
            KeyCode::Down => self.scroll_by(1),
            KeyCode::PageDown => self.scroll_by(PAGE),
            KeyCode::Up => self.scroll = self.scroll().saturating_sub(1),
            KeyCode::PageUp => self.scroll = self.scroll().saturating_sub(PAGE),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
    }

    fn scroll_by(&mut self, rows: usize) {
        self.scroll = self.scroll().saturating_add(rows);
    }

    /// The queue pairs that the filter shows, in order.
    pub fn rows(&self) -> impl Iterator<Item = &QpRow> {
        self.rates.qps.iter().filter(|qp| self.shows(qp))
    }

    fn shows(&self, qp: &QpRow) -> bool {
        let filter = self.filter.as_str();
        filter.is_empty() || cells(qp).iter().any(|cell| cell.contains(filter))
    }

    /// Rows above the first one on the screen.
    pub fn scroll(&self) -> usize {
        self.scroll.min(self.rows().count().saturating_sub(1))
    }

    /// What is shown.
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// The column that the rows are sorted by.
    pub fn sort(&self) -> Sort {
        self.sort
    }

    /// Only rows with this text are shown; empty for all.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// The filter that is being typed.
    pub fn edited_filter(&self) -> Option<&str> {
        self.edited.as_deref()
    }

    /// New rates are not taken.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The keys are explained.
    pub fn shows_help(&self) -> bool {
        self.help
    }

    /// The user wants to end.
    pub fn is_ended(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::{AFTER, BEFORE, rates};
    use super::*;

    fn app() -> App {
        let mut app = App::default();
        app.handle_rates(rates(BEFORE, AFTER));
        app
    }

    fn press(app: &mut App, keys: &str) {
        for key in keys.chars() {
            let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
            app.handle_key(KeyEvent::from(code));
        }
    }

    fn qpns(app: &App) -> Vec<&str> {
        app.rows().map(|qp| qp.qpn.as_str()).collect()
    }

    #[test]
    fn a_filter_shows_what_contains_it() {
        let mut app = app();
        assert_eq!(qpns(&app), ["17", "19"], "the busiest first");
        press(&mut app, "/UD\n");
        assert_eq!((qpns(&app), app.filter()), (vec!["19"], "UD"));
        press(&mut app, "/q");
        assert_eq!(app.edited_filter(), Some("UDq"), "no command meanwhile");
        app.handle_key(KeyEvent::from(KeyCode::Esc));
        assert_eq!((app.filter(), app.is_ended()), ("UD", false));
    }

    #[test]
    fn a_stopped_screen_keeps_what_it_shows() {
        let mut app = app();
        press(&mut app, " ");
        app.handle_rates(Rates::default());
        assert_eq!(app.rows().count(), 2);
        press(&mut app, " ");
        app.handle_rates(Rates::default());
        assert_eq!(app.rows().count(), 0);
    }

    #[test]
    fn rows_are_sorted_by_the_column_that_was_chosen() {
        let mut app = app();
        let titles = [(); 4].map(|()| {
            press(&mut app, "s");
            app.sort().title()
        });
        assert_eq!(titles, ["MSG/S", "RETR/S", "PROCESS", "GBIT/S"]);
    }

    #[test]
    fn scrolling_stops_at_the_last_row() {
        let mut app = app();
        (0..100).for_each(|_| app.handle_key(KeyEvent::from(KeyCode::PageDown)));
        assert_eq!(app.scroll(), 1);
        app.handle_key(KeyEvent::from(KeyCode::Up));
        assert_eq!(app.scroll(), 0);
    }

    #[test]
    fn q_and_ctrl_c_end_it() {
        let (mut one, mut other) = (app(), app());
        press(&mut one, "q");
        press(&mut other, "/");
        other.handle_key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(one.is_ended() && other.is_ended() && !app().is_ended());
    }
}
