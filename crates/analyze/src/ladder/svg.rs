//! A ladder as a drawing for a browser.

use std::fmt::Write;

use super::text::{fit, fold_label, fold_note, seconds};
use super::{Arrow, ArrowKind, End, Fold, Ladder, Row};
use crate::{printable, quantity};

/// Height of a row, and how far an arrow falls on its way.
const ROW: usize = 26;
const FALL: usize = 8;
/// Where frame numbers and times end, and where the two lines are.
const FRAME: usize = 60;
const TIME: usize = 150;
const LEFT: usize = 170;
const RIGHT: usize = 650;
const NOTE: usize = 666;
/// Rows begin below the names of the ends.
const TOP: usize = 56;
/// Width of a letter of a note, and most letters of one: a comment of the capture file may be a book.
const LETTER: usize = 7;
const LETTERS: usize = 200;

const STYLE: &str = "\
svg{background:#fff;color:#222;font:12px ui-monospace,monospace}\
text{fill:currentColor}.dim{opacity:.65}.end{font-weight:bold}\
line{stroke:currentColor;stroke-width:1.2}.rail{stroke-width:2;opacity:.5}\
.response{color:#05728a}.ack{color:#1a7f37}.refusal,.lost{color:#c4201c}.again{color:#9a5b00}\
.congestion{color:#8532b8}\
@media (prefers-color-scheme:dark){svg{background:#14171a;color:#dde3e8}\
.response{color:#5fc9e0}.ack{color:#6cd58a}.refusal,.lost{color:#ff7b72}.again{color:#f0b04c}\
.congestion{color:#d29cff}}";

impl Ladder {
    /// The ladder as an SVG document that needs nothing else, for light and dark backgrounds.
    pub fn to_svg(&self) -> String {
        let height = TOP + ROW * self.rows.len() + ROW;
        let width = NOTE + LETTER * self.rows.iter().map(note_letters).max().unwrap_or(0) + 20;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{}</title>\n\
             <style>{STYLE}</style>\n",
            escape(&title(&self.ends))
        );
        head(&mut out, &self.ends, height);
        for (at, row) in self.rows.iter().enumerate() {
            draw_row(&mut out, row, TOP + ROW * at);
        }
        out.push_str("</svg>\n");
        out
    }
}

fn title(ends: &[End; 2]) -> String {
    let [left, right] = ends.map(|end| name(&end));
    format!("Packets between {left} and {right}")
}

fn name(end: &End) -> String {
    end.qpn.map_or_else(|| end.address.to_string(), |qpn| format!("{} QP {qpn}", end.address))
}

fn head(out: &mut String, ends: &[End; 2], height: usize) {
    for (end, x, anchor) in [(&ends[0], LEFT, "start"), (&ends[1], RIGHT, "end")] {
        text(out, (x, 20), anchor, "end", &name(end));
        line(out, (x, TOP - 22), (x, height - ROW / 2), "rail");
    }
    text(out, (FRAME, 40), "end", "dim", "frame");
    text(out, (TIME, 40), "end", "dim", "time/s");
}

fn draw_row(out: &mut String, row: &Row, y: usize) {
    match row {
        Row::Arrow(arrow) => draw_arrow(out, arrow, y),
        Row::Fold(fold) => draw_fold(out, fold, y),
        Row::Pause(time) => {
            let label = format!("... {} ...", quantity::duration(*time));
            text(out, ((LEFT + RIGHT) / 2, y), "middle", "dim", &label);
        }
    }
}

fn draw_arrow(out: &mut String, arrow: &Arrow, y: usize) {
    let _ = writeln!(out, "<g class=\"{}\">", class(arrow));
    place(out, &arrow.frame.to_string(), &seconds(arrow.time), y);
    let (from, to) = if arrow.to_right { (LEFT, RIGHT) } else { (RIGHT, LEFT) };
    let end = if arrow.is_lost { from + (to / 4 * 3) - (from / 4 * 3) } else { to };
    let fall = if arrow.is_lost { FALL * 3 / 4 } else { FALL };
    line(out, (from, y), (end, y + fall), "shaft");
    head_of(out, (end, y + fall), arrow);
    text(out, ((LEFT + RIGHT) / 2, y - 3), "middle", "label", &arrow.label);
    text(out, (NOTE, y + 4), "start", "note", &notes(arrow));
    out.push_str("</g>\n");
}

/// The head of an arrow, or the cross of one that did not arrive.
fn head_of(out: &mut String, (x, y): (usize, usize), arrow: &Arrow) {
    if arrow.is_lost {
        line(out, (x - 5, y - 5), (x + 5, y + 5), "cross");
        line(out, (x - 5, y + 5), (x + 5, y - 5), "cross");
    } else {
        let back = if arrow.to_right { x - 8 } else { x + 8 };
        line(out, (back, y - 5), (x, y), "head");
        line(out, (back, y + 4), (x, y), "head");
    }
}

fn draw_fold(out: &mut String, fold: &Fold, y: usize) {
    out.push_str("<g class=\"dim\">\n");
    place(out, "...", &seconds(fold.time), y);
    let label = format!("... {}", fold_label(fold));
    text(out, ((LEFT + RIGHT) / 2, y), "middle", "label", &label);
    text(out, (NOTE, y + 4), "start", "note", &fold_note(fold));
    out.push_str("</g>\n");
}

fn place(out: &mut String, frame: &str, time: &str, y: usize) {
    text(out, (FRAME, y + 4), "end", "dim", frame);
    text(out, (TIME, y + 4), "end", "dim", time);
}

fn class(arrow: &Arrow) -> &'static str {
    match arrow.kind {
        _ if arrow.is_lost => "lost",
        ArrowKind::Refusal => "refusal",
        _ if arrow.is_retransmission => "again",
        ArrowKind::Response => "response",
        ArrowKind::Acknowledgement => "ack",
        ArrowKind::Congestion => "congestion",
        ArrowKind::Request | ArrowKind::Other => "request",
    }
}

fn notes(arrow: &Arrow) -> String {
    let notes: Vec<_> = arrow.notes.iter().map(|note| fit(note, LETTERS)).collect();
    notes.join("; ")
}

fn note_letters(row: &Row) -> usize {
    match row {
        Row::Arrow(arrow) => notes(arrow).chars().count(),
        Row::Fold(fold) => fold_note(fold).chars().count(),
        Row::Pause(_) => 0,
    }
}

fn text(out: &mut String, (x, y): (usize, usize), anchor: &str, class: &str, text: &str) {
    if !text.is_empty() {
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" class=\"{class}\">{}</text>",
            escape(text)
        );
    }
}

fn line(out: &mut String, from: (usize, usize), to: (usize, usize), class: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ =
        writeln!(out, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>");
}

/// Text that is text in XML, whatever is in it.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in printable(text).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    out
}
