//! A ladder for a terminal.

use std::fmt::Write;
use std::time::Duration;

use super::{Arrow, ArrowKind, End, Fold, Ladder, Row};
use crate::{printable, quantity};

/// How a ladder is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns of the terminal; a ladder takes 60 at least.
    pub width: usize,
    /// With ANSI colours.
    pub has_colour: bool,
}

impl Default for TextStyle {
    /// 100 columns, no colour.
    fn default() -> Self {
        Self { width: 100, has_colour: false }
    }
}

const RESET: &str = "\x1b[0m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";

/// Least columns of an arrow, and most.
const ARROW: (usize, usize) = (32, 60);
/// Columns for notes that are kept free if there are any.
const NOTES: usize = 24;

impl Ladder {
    /// The ladder as lines.
    pub fn to_text(&self, style: TextStyle) -> String {
        let mut drawing = Drawing::new(self, style);
        drawing.head(&self.ends);
        self.rows.iter().for_each(|row| drawing.row(row));
        drawing.out
    }
}

struct Drawing {
    style: TextStyle,
    frame_width: usize,
    time_width: usize,
    arrow_width: usize,
    note_width: usize,
    out: String,
}

impl Drawing {
    fn new(ladder: &Ladder, style: TextStyle) -> Self {
        let (frame, time) = last(ladder);
        let frame_width = frame.to_string().len().max(5);
        let time_width = seconds(time).len().max(8);
        let rest = style.width.max(60) - frame_width - time_width - 7;
        let has_notes = ladder.rows.iter().any(has_note);
        let room = if has_notes { rest.saturating_sub(NOTES) } else { rest };
        let wanted = ladder.rows.iter().map(label_width).max().unwrap_or(0) + 8;
        let arrow_width = wanted.min(room).clamp(ARROW.0, ARROW.1);
        let note_width = rest.saturating_sub(arrow_width).max(10);
        Self { style, frame_width, time_width, arrow_width, note_width, out: String::new() }
    }

    fn head(&mut self, ends: &[End; 2]) {
        let addresses = ends.map(|end| end.address.to_string());
        let qpns = ends.map(|end| end.qpn.map_or_else(String::new, |qpn| format!("QP {qpn}")));
        let indent = self.frame_width + self.time_width + 4;
        for [left, right] in [addresses, qpns] {
            let gap = (self.arrow_width + 2).saturating_sub(left.len() + right.len()).max(2);
            let _ = writeln!(self.out, "{:indent$}{left}{:gap$}{right}", "", "");
        }
        let line = self.between(&" ".repeat(self.arrow_width));
        self.line("frame", "time/s", &line, "");
    }

    fn row(&mut self, row: &Row) {
        match row {
            Row::Arrow(arrow) => self.arrow(arrow),
            Row::Fold(fold) => self.fold(fold),
            Row::Pause(time) => self.pause(*time),
        }
    }

    fn arrow(&mut self, arrow: &Arrow) {
        let label = fit(&arrow.label, self.arrow_width.saturating_sub(6));
        let drawn = shaft(&label, arrow.to_right, arrow.is_lost, self.arrow_width);
        let line = self.between(&self.painted(&drawn, colour(arrow)));
        self.noted(&arrow.frame.to_string(), arrow.time, &line, &arrow.notes.join("; "));
    }

    /// A line with a note beside it, which goes on below if it is long.
    fn noted(&mut self, frame: &str, time: Duration, line: &str, note: &str) {
        let notes = wrap(&printable(note), self.note_width);
        let first = notes.first().map_or("", String::as_str);
        self.line(frame, &seconds(time), line, first);
        let blank = self.between(&" ".repeat(self.arrow_width));
        notes.iter().skip(1).for_each(|note| self.line("", "", &blank, note));
    }

    fn fold(&mut self, fold: &Fold) {
        let label = fit(&fold_label(fold), self.arrow_width.saturating_sub(6));
        let drawn = centred(&format!("... {label}"), self.arrow_width);
        let line = self.between(&self.painted(&drawn, DIM));
        self.noted("...", fold.time, &line, &fold_note(fold));
    }

    fn pause(&mut self, time: Duration) {
        let drawn = centred(&format!("... {} ...", quantity::duration(time)), self.arrow_width);
        let drawn = self.painted(&drawn, DIM);
        self.line("", "", &format!(":{drawn}:"), "");
    }

    fn between(&self, drawn: &str) -> String {
        format!("|{drawn}|")
    }

    fn line(&mut self, frame: &str, time: &str, drawn: &str, note: &str) {
        let (frames, times) = (self.frame_width, self.time_width);
        let line = format!("{frame:>frames$}  {time:>times$}  {drawn}  {note}");
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn painted(&self, text: &str, colour: &str) -> String {
        if self.style.has_colour && !colour.is_empty() {
            format!("{colour}{text}{RESET}")
        } else {
            text.to_owned()
        }
    }
}

/// Frame and time of the last row that has them.
fn last(ladder: &Ladder) -> (u64, Duration) {
    let place = |row: &Row| match row {
        Row::Arrow(arrow) => Some((arrow.frame, arrow.time)),
        Row::Fold(fold) => Some((fold.frames.1, fold.time)),
        Row::Pause(_) => None,
    };
    ladder.rows.iter().rev().find_map(place).unwrap_or_default()
}

fn has_note(row: &Row) -> bool {
    match row {
        Row::Arrow(arrow) => !arrow.notes.is_empty(),
        Row::Fold(_) => true,
        Row::Pause(_) => false,
    }
}

fn label_width(row: &Row) -> usize {
    match row {
        Row::Arrow(arrow) => arrow.label.chars().count(),
        Row::Fold(fold) => fold_label(fold).chars().count() + 2,
        Row::Pause(_) => 0,
    }
}

/// `253 more WRITE Middle 1024 B`
pub(super) fn fold_label(fold: &Fold) -> String {
    format!("{} more {}", fold.count, fold.label)
}

/// `PSN 0x1..0xfd, frames 2..254`
pub(super) fn fold_note(fold: &Fold) -> String {
    let psns = match &fold.psns {
        (first, _) if first.is_empty() => String::new(),
        (first, last) => format!("PSN {first}..{last}, "),
    };
    format!("{psns}frames {}..{}", fold.frames.0, fold.frames.1)
}

/// Seconds with microseconds.
pub(super) fn seconds(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}

fn colour(arrow: &Arrow) -> &'static str {
    match arrow.kind {
        _ if arrow.is_lost => RED,
        ArrowKind::Refusal => RED,
        _ if arrow.is_retransmission => YELLOW,
        ArrowKind::Response => "\x1b[36m",
        ArrowKind::Acknowledgement => "\x1b[32m",
        ArrowKind::Congestion => "\x1b[35m",
        ArrowKind::Request | ArrowKind::Other => "",
    }
}

/// An arrow with its label near the end it starts from, `width` columns.
fn shaft(label: &str, to_right: bool, is_lost: bool, width: usize) -> String {
    let line = width.saturating_sub(label.chars().count() + 5);
    let (head, dashes, void) = match is_lost {
        true => ('X', line - line / 4, line / 4),
        false if to_right => ('>', line, 0),
        false => ('<', line, 0),
    };
    let (dashes, void) = ("-".repeat(dashes), " ".repeat(void));
    match to_right {
        true => format!("-- {label} {dashes}{head}{void}"),
        false => format!("{void}{head}{dashes} {label} --"),
    }
}

/// Shortens to `width` columns.
pub(super) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "~"
}

fn centred(text: &str, width: usize) -> String {
    format!("{:^width$}", fit(text, width))
}

/// Breaks at blanks, so that no line is longer than `width`, if no word is.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
