//! The page of one kernel: what passes, and an explanation of what does not.

use std::fmt::Write as _;

use super::trial::{Case, Run};

/// The words for what becomes of a case, the good ones first.
const VERDICTS: [&str; 5] = ["pass", "tolerated", "fail", "not applicable", "inconclusive"];

/// Which rules rxe is known to break, and why: the table of `docs/conform/rxe.md`.
pub struct Deviations<'t> {
    rows: Vec<[&'t str; 3]>,
}

impl<'t> Deviations<'t> {
    /// Reads the rows `| case | kernels | explanation |`.
    pub fn read(text: &'t str) -> Self {
        let row = |line: &'t str| {
            let inside = line.strip_prefix("| ")?.strip_suffix(" |")?;
            let mut cells = inside.splitn(3, " | ");
            Some([cells.next()?, cells.next()?, cells.next()?])
        };
        Self { rows: text.lines().filter_map(row).collect() }
    }

    /// Why this kernel fails a case.
    pub fn explain(&self, case: &str, version: &str) -> Option<&'t str> {
        let found = self.rows.iter().find(|[name, kernels, _]| {
            *name == case && kernels.split(", ").any(|kernel| kernel == version)
        });
        found.map(|row| row[2])
    }
}

/// The page of one run.
pub struct Page<'r> {
    /// The run.
    pub run: &'r Run,
    /// What is known.
    pub deviations: &'r Deviations<'r>,
}

impl Page<'_> {
    /// The failed cases that have no explanation for this kernel.
    pub fn unexplained(&self) -> Vec<&str> {
        let version = self.run.version();
        let open = |case: &&Case| {
            case.verdict == "fail" && self.deviations.explain(&case.name, &version).is_none()
        };
        self.run.cases.iter().filter(open).map(|case| case.name.as_str()).collect()
    }

    /// As Markdown.
    pub fn render(&self) -> String {
        let version = self.run.version();
        let counts: Vec<String> =
            VERDICTS.iter().map(|word| format!("{} {word}", self.run.count(word))).collect();
        let mut text = format!(
            "# Conformance of kernel rxe, Linux {version}\n\n{}, device rxe0, in an emulated or virtual machine, with rdma-core of the host. \
             `cargo xtask rxe conform --kernel VERSION --write` makes this page.\n\n{}. Deviations are explained in [rxe.md](rxe.md).\n\n\
             | case | class | rules | verdict | remark |\n|---|---|---|---|---|\n",
            self.run.peer.system,
            counts.join(", ")
        );
        for case in &self.run.cases {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                case.name,
                case.class,
                case.rules,
                case.verdict,
                self.remark(case, &version)
            );
        }
        text
    }

    fn remark(&self, case: &Case, version: &str) -> String {
        let mut parts = vec![cell(&case.why)];
        parts.extend(case.recorded.iter().map(|text| cell(text)));
        if case.verdict == "fail" {
            let known = self.deviations.explain(&case.name, version).unwrap_or("not explained");
            // Bold inside of bold would end it.
            parts.push(format!("**{}**", known.replace("**", "")));
        }
        parts.retain(|part| !part.is_empty());
        parts.join("; ")
    }
}

/// Text that does not end a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rxe::conform::trial::Peer;

    const KNOWN: &str =
        "text\n\n| case | kernels | what |\n|---|---|---|\n| a.b | 6.1, 7.2 | **It** forgets. |\n";

    fn run(name: &str, verdict: &str) -> Run {
        let text = |text: &str| text.to_owned();
        let case = Case {
            name: text(name),
            rules: text("R1"),
            class: text("must"),
            verdict: text(verdict),
            why: text("a|b"),
            recorded: vec![],
        };
        let peer = Peer { system: text("Linux 7.2.12+deb14-amd64 x86_64") };
        Run { peer, ended_early: None, cases: vec![case] }
    }

    #[test]
    fn a_failure_is_explained_for_its_kernel_only() {
        let deviations = Deviations::read(KNOWN);
        assert_eq!(deviations.explain("a.b", "7.2"), Some("**It** forgets."));
        assert_eq!(deviations.explain("a.b", "6.12"), None);
        let (known, unknown) = (run("a.b", "fail"), run("a.c", "fail"));
        let page = |run| Page { run, deviations: &deviations };
        assert!(page(&known).unexplained().is_empty());
        assert_eq!(page(&unknown).unexplained(), ["a.c"]);
        assert!(page(&run("a.c", "pass")).unexplained().is_empty());
    }

    #[test]
    fn a_page_has_counts_and_remarks() {
        let deviations = Deviations::read(KNOWN);
        let text = Page { run: &run("a.b", "fail"), deviations: &deviations }.render();
        assert!(text.contains("0 pass, 0 tolerated, 1 fail"), "{text}");
        assert!(text.contains("| a.b | must | R1 | fail | a\\|b; **It forgets.** |"), "{text}");
    }
}
