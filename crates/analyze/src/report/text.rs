//! A report as a page of text.

use std::fmt::Write;
use std::time::Duration;

use super::capture_lines;
use super::table::Table;
use super::{
    CaptureSummary, ConversationRow, FindingRow, FlowRow, Grade, Quantiles, Report, VerbRow,
};
use crate::judge::Severity;
use crate::quantity::{bit_rate, bytes, count, duration};
use crate::{TextStyle, printable};

/// Most conversations on the page; JSON has all.
const CONVERSATIONS: usize = 20;
/// Most findings on the page.
const FINDINGS: usize = 20;

const RESET: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const GREEN: &str = "\x1b[32m";

impl Report {
    /// The report as a page. Lines of text are wrapped at the width; rows of tables are not.
    pub fn to_text(&self, style: TextStyle) -> String {
        let mut page = TextPage { style, out: String::new() };
        page.verdict(self);
        page.capture(&self.source, &self.capture);
        page.conversations(&self.conversations);
        page.ends(&self.conversations);
        page.findings(&self.findings);
        page.repetitions(&self.conversations);
        page.congestion(&self.conversations);
        page.slowest(self);
        page.out
    }

    /// Everything about each conversation, for a report about few of them.
    pub fn details(&self, style: TextStyle) -> String {
        let mut page = TextPage { style, out: String::new() };
        for row in self.conversations.iter().take(CONVERSATIONS) {
            row.flows.iter().for_each(|flow| page.details(row, flow));
        }
        page.out
    }
}

struct TextPage {
    style: TextStyle,
    out: String,
}

impl TextPage {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn heading(&mut self, text: &str) {
        let heading = self.painted(text, BOLD);
        self.out.push('\n');
        self.line(&heading);
    }

    fn painted(&self, text: &str, colour: &str) -> String {
        if self.style.has_colour { format!("{colour}{text}{RESET}") } else { text.to_owned() }
    }

    /// Words behind an indent, wrapped.
    fn paragraph(&mut self, indent: usize, text: &str) {
        let width = self.style.width.clamp(60, 120) - indent;
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                self.line(&format!("{:indent$}{line}", ""));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            self.line(&format!("{:indent$}{line}", ""));
        }
    }

    fn verdict(&mut self, report: &Report) {
        let colour = match report.verdict.severity {
            Grade::Ok | Grade::Note => GREEN,
            Grade::Warning => YELLOW,
            Grade::Error => RED,
        };
        let start = self.out.len();
        self.paragraph(0, &report.verdict.sentence);
        if self.style.has_colour {
            let sentence = self.out.split_off(start);
            self.out = format!("{BOLD}{colour}{}{RESET}\n", sentence.trim_end());
        }
    }

    fn capture(&mut self, source: &str, capture: &CaptureSummary) {
        self.heading("Capture");
        self.line(&format!("  {}: {}", printable(source), capture_lines::frames(capture)));
        for line in capture_lines::contents(capture) {
            self.line(&format!("  {line}"));
        }
        if let Some(error) = &capture.error {
            let text = format!("The capture ends early: {}", printable(error));
            self.line(&format!("  {}", self.painted(&text, RED)));
        }
    }

    fn conversations(&mut self, rows: &[ConversationRow]) {
        if rows.is_empty() {
            return;
        }
        self.heading("Conversations");
        let mut table = Table::new(
            &[
                "#",
                "from",
                "to",
                "service",
                "messages",
                "bytes",
                "goodput",
                "sent again",
                "RTT p50",
                "p99",
                "state",
            ],
            &[0, 4, 5, 6, 7, 8, 9],
        );
        for row in rows.iter().take(CONVERSATIONS) {
            conversation(&mut table, row);
        }
        table.lines().for_each(|line| self.line(&format!("  {line}")));
        if let Some(more) = rows.len().checked_sub(CONVERSATIONS).filter(|more| *more > 0) {
            self.line(&format!("  and {more} more: choose with --qp or --host, or see --json"));
        }
    }

    /// Why queue pairs failed, in full.
    fn ends(&mut self, rows: &[ConversationRow]) {
        let failed: Vec<_> = rows.iter().filter(|row| row.failure.is_some()).collect();
        if failed.is_empty() {
            return;
        }
        self.heading("Why queue pairs failed");
        for row in failed.into_iter().take(CONVERSATIONS) {
            let text = row.failure.as_deref().unwrap_or_default();
            self.paragraph(2, &format!("#{}: {text}", row.number));
        }
    }

    fn findings(&mut self, rows: &[FindingRow]) {
        if rows.is_empty() {
            return;
        }
        self.heading("Findings");
        rows.iter().take(FINDINGS).for_each(|row| self.finding(row));
        if let Some(more) = rows.len().checked_sub(FINDINGS).filter(|more| *more > 0) {
            self.line(&format!("  and {more} more: see --json"));
        }
    }

    fn finding(&mut self, row: &FindingRow) {
        let colour = match row.severity {
            Severity::Error => RED,
            Severity::Warning => YELLOW,
            Severity::Note => BOLD,
        };
        let severity = self.painted(row.severity.name(), colour);
        let rule = if row.id == "-" { String::new() } else { format!(", {}", row.id) };
        self.line(&format!("  {severity} {} ({}{rule}), {}", row.title, row.rule, places(row)));
        let flow = row.source.zip(row.destination);
        let flow = flow.map(|(from, to)| format!("{} > {}: ", from.text(), to.text()));
        let text = printable(&row.text);
        self.paragraph(4, &format!("{}{text}", flow.unwrap_or_default()));
        self.paragraph(4, row.advice);
        if !row.look.is_empty() {
            self.line(&format!("    {}", row.look));
        }
    }

    /// What was sent again, and the pauses for receivers that were not ready.
    fn repetitions(&mut self, rows: &[ConversationRow]) {
        let flows = rows.iter().flat_map(|row| row.flows.iter().map(move |flow| (row, flow)));
        let lines: Vec<_> = flows.filter_map(|(row, flow)| repetition(row, flow)).collect();
        if !lines.is_empty() {
            self.heading("Sent again");
            lines.iter().take(CONVERSATIONS).for_each(|line| self.paragraph(2, line));
        }
    }

    fn congestion(&mut self, rows: &[ConversationRow]) {
        let flows = || rows.iter().flat_map(|row| &row.flows);
        let marks: u64 = flows().map(|flow| flow.figures.congestion_marks).sum();
        let cnps: u64 = flows().map(|flow| flow.figures.cnps).sum();
        if marks + cnps > 0 {
            self.heading("Congestion");
            let marks = count(marks, "packet");
            let cnps = count(cnps, "congestion notification");
            self.line(&format!("  {marks} marked \"congestion experienced\", {cnps}"));
        }
    }

    fn details(&mut self, row: &ConversationRow, flow: &FlowRow) {
        let figures = &flow.figures;
        let (from, to) = (flow.source.text(), flow.destination.text());
        self.heading(&format!("#{} {from} > {to}", row.number));
        let mtu = row.path_mtu.map_or_else(|| "not known".to_owned(), |mtu| mtu.to_string());
        let pairing = if row.paired_by.is_empty() { "nothing" } else { row.paired_by };
        self.line(&format!("  {}, path MTU {mtu}, paired by {pairing}", row.service));
        let mut table = Table::new(
            &[
                "verb",
                "messages",
                "completed",
                "bytes",
                "size p50",
                "max",
                "time p50",
                "p99",
                "max",
            ],
            &[1, 2, 3, 4, 5, 6, 7, 8],
        );
        flow.verbs.iter().for_each(|verb| table.row(verb_cells(verb)));
        if !flow.verbs.is_empty() {
            table.lines().for_each(|line| self.line(&format!("  {line}")));
        }
        for (name, number) in [
            ("packets", figures.packets),
            ("requests", figures.requests),
            ("responses", figures.responses),
            ("ACKs", figures.acks),
            ("NAKs", figures.nak_total),
            ("RNR NAKs", figures.rnr_naks),
            ("duplicates", figures.duplicates),
            ("reordered", figures.reordered),
            ("unsolicited answers", figures.unsolicited),
            ("wrong ICRCs", figures.icrc_errors),
            ("most packets under way", figures.max_outstanding_packets),
            ("most bytes under way", figures.max_outstanding_bytes),
            ("most READs under way", figures.max_outstanding_reads.into()),
        ] {
            if number > 0 {
                self.line(&format!("  {name:<23}{number:>12}"));
            }
        }
    }

    fn slowest(&mut self, report: &Report) {
        if report.slowest_messages.is_empty() {
            return;
        }
        self.heading("Slowest messages");
        for message in &report.slowest_messages {
            let time = duration(Duration::from_nanos(message.duration_ns));
            let again = match message.retransmitted {
                0 => String::new(),
                packets => format!(", {} sent again", count(packets.into(), "packet")),
            };
            self.line(&format!("  {time:>8}  {} of {}{again}", message.verb, bytes(message.bytes)));
            if !message.look.is_empty() {
                self.line(&format!("            {}", message.look));
            }
        }
    }
}

fn verb_cells(verb: &VerbRow) -> Vec<String> {
    let size = |pick: fn(&Quantiles) -> u64| {
        verb.size.as_ref().map_or_else(|| "-".to_owned(), |sizes| bytes(pick(sizes)))
    };
    let time = |pick: fn(&Quantiles) -> u64| {
        let time = verb.time_ns.as_ref().map(|times| Duration::from_nanos(pick(times)));
        time.map_or_else(|| "-".to_owned(), duration)
    };
    vec![
        verb.verb.to_owned(),
        verb.messages.to_string(),
        verb.completed.to_string(),
        bytes(verb.bytes),
        size(|sizes| sizes.p50),
        size(|sizes| sizes.max),
        time(|times| times.p50),
        time(|times| times.p99),
        time(|times| times.max),
    ]
}

/// A line for each direction that sends requests; one for a conversation that has none.
fn conversation(table: &mut Table, row: &ConversationRow) {
    let busy = row.flows.iter().filter(|flow| flow.figures.requests > 0).count().max(1);
    for (index, flow) in row.flows.iter().take(busy).enumerate() {
        let is_first = index == 0;
        let figures = &flow.figures;
        let time = |quantile: fn(&super::Quantiles) -> u64| {
            let trips = flow.round_trip_ns.as_ref();
            trips.map_or_else(
                || "-".to_owned(),
                |trips| duration(Duration::from_nanos(quantile(trips))),
            )
        };
        table.row(vec![
            if is_first { row.number.to_string() } else { String::new() },
            flow.source.text(),
            flow.destination.text(),
            if is_first { row.service.to_owned() } else { String::new() },
            figures.messages.to_string(),
            bytes(figures.verbs.iter().map(|verb| verb.bytes).sum()),
            goodput(row, flow),
            flow.data_frames_retransmitted.to_string(),
            time(|trips| trips.p50),
            time(|trips| trips.p99),
            if is_first { row.state.to_owned() } else { String::new() },
        ]);
    }
}

/// New payload that the requests of a flow moved, as a rate: that of SENDs and WRITEs goes with them, and that of READs
/// comes in the other direction.
fn goodput(row: &ConversationRow, flow: &FlowRow) -> String {
    let figures = &flow.figures;
    let back = row.flows.iter().find(|back| back.destination == flow.source);
    let back = back.map(|back| &back.figures).filter(|back| back.response_goodput_bytes > 0);
    let sent = figures.goodput_bytes.saturating_sub(figures.response_goodput_bytes);
    let bytes = sent + back.map_or(0, |back| back.response_goodput_bytes);
    let last = figures.last_time.max(back.and_then(|back| back.last_time));
    let times = figures.first_time.zip(last);
    let rate = times.and_then(|(first, last)| bit_rate(bytes, last.since(first)));
    rate.unwrap_or_else(|| "-".to_owned())
}

/// `frame 44`, `5 times, frames 44, 51, 53 ... 90`
fn places(row: &FindingRow) -> String {
    let frames: Vec<_> = row.frames.iter().take(3).map(u64::to_string).collect();
    match row.frames.as_slice() {
        [] => "in the whole capture".to_owned(),
        [frame] => format!("frame {frame}"),
        all => {
            let is_cut = all.len() > 3 || row.count > all.len() as u64;
            let more = if is_cut { format!(" ... {}", row.last_frame) } else { String::new() };
            format!("{} times, frames {}{more}", row.count, frames.join(", "))
        }
    }
}

/// What a flow sent again and why, where packets were lost, and how long it waited for receives.
fn repetition(row: &ConversationRow, flow: &FlowRow) -> Option<String> {
    let figures = &flow.figures;
    let causes = flow.sent_again.iter().map(|again| {
        let rounds = count(again.counted.rounds, "round");
        format!("{} in {rounds} ({})", again.counted.packets, again.cause)
    });
    let causes: Vec<_> = causes.collect();
    let lost_for_good = row.lost_for_good(flow);
    if causes.is_empty() && figures.rnr_promised_ns == 0 && lost_for_good == 0 {
        return None;
    }
    let mut text =
        format!("#{} {} > {}: ", row.number, flow.source.text(), flow.destination.text());
    text += &if causes.is_empty() { "nothing".to_owned() } else { causes.join(", ") };
    for (packets, place) in [
        (figures.lost_before, "before the capture point"),
        (figures.lost_behind, "behind the capture point"),
        (lost_for_good, "for good, before or behind the capture point, or by the capture"),
    ] {
        if packets > 0 {
            let _ = write!(text, "; {} lost {place}", count(packets, "packet"));
        }
    }
    if figures.rnr_promised_ns > 0 {
        let [asked, took] = [figures.rnr_promised_ns, figures.rnr_waited_ns]
            .map(|ns| duration(Duration::from_nanos(ns)));
        let _ = write!(text, "; RNR waits of {took} where {asked} were asked for");
    }
    Some(text)
}
