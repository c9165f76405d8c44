//! What a page says to a browser without scripts.

use super::escape::html;
use super::input::ViewEnd;
use super::meta::{ConversationEntry, FindingEntry, Meta};

/// Rows of the tables.
const MAX_ROWS: usize = 200;

/// Tables of conversations and findings as HTML.
pub(super) fn summary(meta: &Meta<'_>) -> String {
    let mut text = format!("<p>{} packets of {} frames.</p>\n", meta.packets, meta.frames);
    for note in &meta.notes {
        text += &format!("<p>{}</p>\n", html(note));
    }
    let heads = "Service|First end|Second end|Packets|Payload bytes|Sent again|NAKs|RNR NAKs|Time";
    text += &table("Conversations", heads, meta.conversations.iter().map(conversation));
    text += &table("Findings", "Severity|Rule|What happened", meta.findings.iter().map(finding));
    text
}

fn conversation(of: &ConversationEntry<'_>) -> Vec<String> {
    let statistics = &of.statistics;
    let both = |pair: [u64; 2]| format!("{} + {}", pair[0], pair[1]);
    vec![
        of.service.clone(),
        end(&of.ends[0]),
        end(&of.ends[1]),
        both(statistics.packets),
        both(statistics.payload),
        both(statistics.retransmissions),
        both(statistics.naks),
        both(statistics.rnrs),
        format!("{:.3} ms", statistics.duration() as f64 / 1e6),
    ]
}

fn finding(of: &FindingEntry<'_>) -> Vec<String> {
    vec![of.severity.to_string(), of.rule.clone(), format!("{}: {}", of.title, of.text)]
}

fn end(end: &ViewEnd) -> String {
    end.qpn.map_or_else(|| end.address.clone(), |qpn| format!("{} QP {qpn:#08x}", end.address))
}

/// A table; `heads` are separated by `|`.
fn table(caption: &str, heads: &str, rows: impl ExactSizeIterator<Item = Vec<String>>) -> String {
    let left_out = rows.len().saturating_sub(MAX_ROWS);
    let mut text = format!("<table>\n<caption>{caption}</caption>\n<tr>");
    for head in heads.split('|') {
        text += &format!("<th scope=\"col\">{head}</th>");
    }
    text += "</tr>\n";
    for cells in rows.take(MAX_ROWS) {
        let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", html(cell))).collect();
        text += &format!("<tr>{cells}</tr>\n");
    }
    text += "</table>\n";
    if left_out > 0 {
        text += &format!("<p>{left_out} more are not listed here.</p>\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_and_rows_end() {
        let rows = vec![vec!["<script>".to_owned()]; MAX_ROWS + 3];
        let text = table("T", "A|B", rows.into_iter());
        assert!(text.contains("<td>&lt;script&gt;</td>") && !text.contains("<script>"));
        assert!(text.contains("<p>3 more are not listed here.</p>"));
        assert_eq!(text.matches("<tr>").count(), MAX_ROWS + 1);
    }
}
