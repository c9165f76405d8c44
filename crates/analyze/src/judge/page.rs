//! The page that explains the findings.

use std::fmt::Write as _;

use super::{RULES, Rule, Severity};

const HEAD: &str = "# Findings: what each means and what to do

`uroce analyze` holds the packets of a capture against the rules of [conformance.md](conformance.md). A finding names the
rule, the flow whose sender is concerned, how often, the first frames, and what happened at the first of them. Each flow
has at most one finding for a rule.

- An **error** is a broken packet, a broken rule that costs data or the connection, or a connection that died.
- A **warning** is against a rule, or a sign of trouble; the connection may go on.
- A **note** is worth knowing: implementations are known to differ there, or the network did it.

Nothing is told that a capture cannot show. If packets of a flow were acknowledged that the capture does not have, rules
that need all packets (*complete*) are not judged for it; if the network reordered or doubled packets, those that need
their order (*in order*) are not judged either. Loss and retransmissions alone are no findings.

This page is made from the rules in `crates/analyze/src/judge/rules`.
";

/// The text of docs/findings.md.
pub fn findings_page() -> String {
    let mut page = HEAD.to_owned();
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let _ = writeln!(page, "\n## {}s", capital(severity.name()));
        let rules = RULES.iter().filter(|rule| rule.severity == severity);
        rules.for_each(|rule| describe(rule, &mut page));
    }
    page
}

fn describe(rule: &Rule, page: &mut String) {
    use super::Assumption;
    let needs = match rule.assumption {
        Assumption::Nothing => "",
        Assumption::Complete => ", needs a complete capture",
        Assumption::CompleteInOrder => ", needs a complete capture in order",
    };
    let Rule { id, name, title, meaning, advice, .. } = rule;
    let of = if *id == "-" { String::new() } else { format!(" ({id}{needs})") };
    let _ = writeln!(page, "\n### {name}\n\n{title}{of}. {meaning}\n\nLook at: {advice}");
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
