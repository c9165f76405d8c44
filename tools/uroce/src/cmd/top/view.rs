//! The screen of `uroce top`.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table};

use super::app::{App, Sort};
use super::cells::{cells, scaled};
use super::sample::{CounterRow, DeviceRow, QpRow, Rates};

/// Columns that the counters take, if the terminal is wide enough for both.
const COUNTERS_WIDTH: u16 = 38;

/// Lines of devices at most.
const MOST_DEVICES: usize = 6;

const HELP: &str = " s      sort by the next column
 /      show only rows that contain a text; Enter ends it, Esc takes it back
 space  stop and go on
 up, down, page up, page down, home
        move through the queue pairs
 ?      this help
 q      end

 The rates are those of the last interval. Retransmissions, RNR NAKs
 and dropped packets (drop_...) are explained in docs/counters.md.";

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &App) {
    let devices = app.rates().devices.len().min(MOST_DEVICES) as u16;
    let rows = [Constraint::Length(1 + devices), Constraint::Min(3), Constraint::Length(1)];
    let [head, body, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(header(app.rates())), head);
    let rows: Vec<_> = app.rows().map(cells).collect();
    let widths = widths(&rows);
    // One column between each two.
    let table = widths.iter().map(|width| width + 1).sum::<usize>();
    if usize::from(body.width) >= table + usize::from(COUNTERS_WIDTH) {
        let columns = [Constraint::Fill(1), Constraint::Length(COUNTERS_WIDTH)];
        let [table, counters] = Layout::horizontal(columns).areas(body);
        draw_qps(frame, table, app, widths);
        draw_counters(frame, counters, &app.rates().counters);
    } else {
        draw_qps(frame, body, app, widths);
    }
    frame.render_widget(Paragraph::new(footer(app)), foot);
    if app.shows_help() {
        draw_help(frame, body);
    }
}

fn header(rates: &Rates) -> Vec<Line<'static>> {
    let sum = |of: fn(&DeviceRow) -> f64| rates.devices.iter().map(of).sum::<f64>();
    let mut line = format!(
        "uroce top: devices {}, queue pairs {}   out {}pkt/s {}b/s   in {}pkt/s {}b/s",
        rates.devices.len(),
        rates.qps.len(),
        scaled(sum(|device| device.packets[0])),
        scaled(sum(|device| device.bits[0])),
        scaled(sum(|device| device.packets[1])),
        scaled(sum(|device| device.bits[1])),
    );
    if rates.silent > 0 {
        line += &format!("   {} do not tell", rates.silent);
    }
    let first = Line::from(line).bold();
    let devices = rates.devices.iter().take(MOST_DEVICES).map(|device| {
        Line::from(format!(
            "  {} of {} {}: out {}pkt/s {}b/s, in {}pkt/s {}b/s",
            device.device,
            device.process,
            device.pid,
            scaled(device.packets[0]),
            scaled(device.bits[0]),
            scaled(device.packets[1]),
            scaled(device.bits[1]),
        ))
    });
    std::iter::once(first).chain(devices).collect()
}

/// Titles of the table.
pub const TITLES: [&str; 12] = [
    "PROCESS", "PID", "DEVICE", "QPN", "PEER", "TYPE", "STATE", "MSG/S", "GBIT/S", "RETR/S",
    "RNR/S", "ERROR",
];

/// The width of each column: that of its longest cell, and of its title with the mark of the one that sorts.
pub fn widths(rows: &[[String; 12]]) -> [usize; 12] {
    std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.fold(TITLES[column].len() + 1, usize::max)
    })
}

fn draw_qps(frame: &mut Frame<'_>, area: Rect, app: &App, widths: [usize; 12]) {
    let rows = app.rows().skip(app.scroll()).take(area.height.into());
    let rows = rows.map(|qp| Row::new(cells(qp)).style(style(qp)));
    let titles = TITLES.map(|title| match title == app.sort().title() {
        true => format!("{title}*"),
        false => title.to_owned(),
    });
    let widths = widths.map(|width| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)));
    let table = Table::new(rows, widths).header(Row::new(titles).style(Style::new().reversed()));
    frame.render_widget(table, area);
}

/// What has failed is red, what loses packets is yellow.
fn style(qp: &QpRow) -> Style {
    match qp {
        qp if qp.state == "ERR" || qp.state == "SQE" => Style::new().red(),
        qp if qp.retransmitted + qp.rnr > 0.0 => Style::new().yellow(),
        _ => Style::new(),
    }
}

fn draw_counters(frame: &mut Frame<'_>, area: Rect, counters: &[CounterRow]) {
    let rows = counters.iter().map(|row| Row::new([row.name.clone(), scaled(row.rate)]));
    let widths = [Constraint::Min(20), Constraint::Length(8)];
    let titles = Row::new(["COUNTER", "PER S"]).style(Style::new().reversed());
    frame.render_widget(Table::new(rows, widths).header(titles), area);
}

fn footer(app: &App) -> String {
    if let Some(text) = app.edited_filter() {
        return format!("show only rows with: {text}_");
    }
    let state = if app.is_paused() { "STOPPED (space goes on)  " } else { "" };
    let filter = match app.filter() {
        "" => String::new(),
        filter => format!("only rows with {filter:?}  "),
    };
    format!("{state}{filter}s sort  / filter  space stop  ? help  q end")
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    // The border takes a line and a column at each side.
    let height = HELP.lines().count() as u16 + 2;
    let width = HELP.lines().map(|line| line.chars().count()).max().unwrap_or(0) as u16 + 2;
    let area = Rect { height: height.min(area.height), width: width.min(area.width), ..area };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title("Keys")), area);
}

impl Sort {
    /// The column that it sorts by.
    pub fn title(self) -> &'static str {
        match self {
            Sort::Bits => "GBIT/S",
            Sort::Messages => "MSG/S",
            Sort::Retransmitted => "RETR/S",
            Sort::Process => "PROCESS",
        }
    }
}

#[cfg(test)]
mod tests;
