//! A report as text.

use std::fmt::{self, Write};

use crate::report::{Difference, End, Line, Mark, Report, RuleOutcome, Shown, Verdict};

impl Report {
    /// The report in lines; with `only_differences` without the answers that are the same.
    pub fn to_text(&self, only_differences: bool) -> String {
        let mut text = String::new();
        let _ = self.write(&mut text, only_differences);
        text
    }

    fn write(&self, out: &mut String, only_differences: bool) -> fmt::Result {
        writeln!(out, "{} answers {}", end(&self.responder), end(&self.requester))?;
        let given = &self.setup;
        writeln!(
            out,
            "  {} played; path MTU {}, first PSN {:#x}, {} of {}",
            counted(self.requests.played, "request"),
            given.path_mtu,
            given.first_psn,
            counted(given.regions as u64, "memory region"),
            counted(given.memory, "byte")
        )?;
        self.write_notes(out)?;
        let shown = |line: &&Line| !only_differences || line.mark.is_difference();
        for line in self.answers.iter().filter(shown) {
            write_line(out, line)?;
        }
        self.write_verdict(out)
    }

    fn write_notes(&self, out: &mut String) -> fmt::Result {
        let requests = &self.requests;
        let notes = [
            (requests.cut, "cut by the capture: zeros stand for what is missing"),
            (requests.not_admitted, "dropped: not of this connection"),
            (requests.damaged, "not played: wrong ICRC"),
            (requests.taken_away, "not played: a fault rule took them away"),
            (requests.lost, "not played: lost behind the capture, and sent again"),
            (requests.left_out, "left out: beyond the limits, or without headers"),
            (self.restarts, "new beginnings of the requester; what follows cannot be answered"),
        ];
        for (count, what) in notes.into_iter().filter(|(count, _)| *count > 0) {
            writeln!(out, "  {count} {what}")?;
        }
        for fault in &self.faults {
            let RuleOutcome { rule, matched, applied, .. } = fault;
            writeln!(out, "  fault rule {rule}: {matched} packets matched, {applied} applied")?;
            if let (1.., Some(reason)) = (fault.not_applied, &fault.reason) {
                writeln!(out, "    {} packets not: {reason}", fault.not_applied)?;
            }
        }
        if self.msn_offset > 0 {
            let offset = self.msn_offset;
            writeln!(out, "  MSNs of now are counted from {offset}, where the capture begins")?;
        }
        Ok(())
    }

    fn write_verdict(&self, out: &mut String) -> fmt::Result {
        let counts = &self.counts;
        let covered = match counts.covered {
            0 => String::new(),
            covered => format!(", {covered} covered"),
        };
        let late = match counts.behind_the_end {
            0 => String::new(),
            late => format!(", {late} at the end"),
        };
        if self.data.same + self.data.other > 0 {
            writeln!(
                out,
                "  data of READs and atomics: {} as recorded, {} others (the application may have written)",
                self.data.same, self.data.other
            )?;
        }
        let verdict = match self.verdict {
            Verdict::Same => "same answers",
            Verdict::Differs => "the answers differ",
        };
        writeln!(
            out,
            "{verdict}: {} equal, {} differ, {} only then, {} only now{covered}{late}",
            counts.equal, counts.differs, counts.only_then, counts.only_now
        )
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn end(end: &End) -> String {
    match end.qpn {
        Some(qpn) => format!("{} QP {qpn:#x}", end.address),
        None => format!("{} QP unknown", end.address),
    }
}

fn write_line(out: &mut String, line: &Line) -> fmt::Result {
    let time = line.time as f64 / 1e9;
    write!(out, "{time:>12.6}  frame {:<6} {:<9} ", line.frame, sign(line.mark))?;
    match (&line.then, &line.now) {
        (Some(then), Some(now)) if line.mark == Mark::Differs => {
            let names: Vec<_> = line.differences.iter().copied().map(Difference::name).collect();
            writeln!(out, "{}; now {} ({})", show(then), show(now), names.join(", "))
        }
        (Some(shown), _) | (None, Some(shown)) => writeln!(out, "{}", show(shown)),
        (None, None) => writeln!(out),
    }
}

fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::Equal => "equal",
        Mark::Differs => "differs",
        Mark::OnlyThen => "only then",
        Mark::OnlyNow => "only now",
        Mark::Covered => "covered",
        Mark::BehindTheEnd => "at end",
    }
}

fn show(answer: &Shown) -> String {
    let mut text = format!("{} PSN {:#08x}", answer.opcode, answer.psn);
    if let Some(meaning) = &answer.meaning {
        let _ = write!(text, " {meaning}");
    }
    if let Some(msn) = answer.msn {
        let _ = write!(text, " MSN {msn}");
    }
    if answer.length > 0 {
        let _ = write!(text, " {} B", answer.length);
    }
    text
}
