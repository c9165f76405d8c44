//! Pages with the cases that fail by each defect.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::workspace;

use super::defects::Defect;
use super::stage::{Broken, Verdicts};

/// A page.
pub struct Page {
    path: &'static str,
    intro: &'static str,
}

/// What faults break.
pub const FAULTS: Page = Page {
    path: "docs/conform/faults.md",
    intro: "# Broken by faults\n\nOur own device, broken on purpose by a rule of `uroce run --fault` ([faults.md](../faults.md)), and \
the cases that fail:\nthose about what it breaks, and those that cannot be tried without it. All others pass. A fault that \
sets a field\nmakes the ICRC right, also of a packet that came with a wrong one: rc.responder.icrc-wrong notices. \
`cargo xtask conform --broken` compares a run\nwith this page, with `--write` it makes it anew.\n",
};

/// What mutations break.
pub const MUTATIONS: Page = Page {
    path: "docs/conform/mutations.md",
    intro: "# Broken by mutations\n\nOur own transport, broken on purpose in one line (the feature `mutation` of `uroce-transport`, \
which no release has), and the cases\nthat fail. All others pass. `cargo xtask conform --mutations` compares a run with this page, \
with `--write` it makes it anew.\n",
};

/// What a run against one defect found.
pub struct Found {
    /// How our device was broken.
    pub defect: Defect,
    /// What was said about each case.
    pub verdicts: Verdicts,
}

impl Found {
    fn with(&self, word: &str) -> BTreeSet<&str> {
        let are = self.verdicts.iter().filter(|(_, verdict)| *verdict == word);
        are.map(|(case, _)| case.as_str()).collect()
    }

    /// How much it failed, for a person who waits.
    pub fn line(&self) -> String {
        let open = match self.with("inconclusive") {
            open if open.is_empty() => String::new(),
            open => format!(", not judged: {open:?}"),
        };
        let failed = self.with("fail").len();
        format!("{}: {failed} of {} fail{open}", self.defect.name, self.verdicts.len())
    }

    fn section(&self) -> String {
        let Defect { name, how, about, .. } = self.defect;
        let how = match how {
            Broken::Fault(rule) => format!("`{rule}`: it"),
            Broken::Mutation(_) => "It".to_owned(),
        };
        let mut text = format!("\n## {name}\n\n{how} {about}.\n\n");
        for case in self.with("fail") {
            let _ = writeln!(text, "- {case}");
        }
        text
    }
}

impl Page {
    /// Writes it anew.
    ///
    /// # Errors
    /// It cannot be written; or a case by which CI tells does not fail.
    pub fn write(&self, found: &[Found]) -> Result<()> {
        let mut text =
            format!("{}\n| | what it does | cases that fail |\n|---|---|---|\n", self.intro);
        for result in found {
            let Defect { name, about, noticed, .. } = result.defect;
            let failed = result.with("fail");
            if !failed.contains(noticed) {
                return Err(Error::new(format!("{name}: {noticed} does not fail")));
            }
            let count = failed.len();
            let all = result.verdicts.len();
            let _ = writeln!(text, "| [{name}](#{name}) | {about} | {count} of {all} |");
        }
        text += &found.iter().map(Found::section).collect::<String>();
        std::fs::write(self.file(), text).context(|| format!("could not write {}", self.path))?;
        println!("{} is written", self.path);
        Ok(())
    }

    /// Compares: exactly the cases of the page must fail. One that could not be judged may be either.
    ///
    /// # Errors
    /// Others fail, or some do not.
    pub fn compare(&self, found: &[Found]) -> Result<()> {
        let text = self.read()?;
        let differences: Vec<String> =
            found.iter().filter_map(|found| difference(found, &listed(&text, found))).collect();
        if differences.is_empty() {
            println!("{} defects fail exactly the cases of {}", found.len(), self.path);
            return Ok(());
        }
        let path = self.path;
        let text = differences.join("\n");
        Err(Error::new(format!("not as {path} says; if that is right, --write\n{text}")))
    }

    fn file(&self) -> PathBuf {
        workspace::root().join(self.path)
    }

    fn read(&self) -> Result<String> {
        std::fs::read_to_string(self.file()).context(|| format!("could not read {}", self.path))
    }
}

/// The cases that the page has for this defect.
fn listed<'t>(page: &'t str, found: &Found) -> BTreeSet<&'t str> {
    let heading = format!("## {}", found.defect.name);
    let section = page.lines().skip_while(|line| *line != heading).skip(1);
    section
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix("- "))
        .collect()
}

/// How a run differs from the page.
fn difference(found: &Found, listed: &BTreeSet<&str>) -> Option<String> {
    let (failed, open) = (found.with("fail"), found.with("inconclusive"));
    let more: Vec<_> = failed.difference(listed).collect();
    let less: Vec<_> = listed.iter().filter(|case| !failed.contains(*case)).collect();
    let less: Vec<_> = less.into_iter().filter(|case| !open.contains(*case)).collect();
    let differs = !more.is_empty() || !less.is_empty();
    differs.then(|| format!("{}: fail as well: {more:?}; do not fail: {less:?}", found.defect.name))
}

#[cfg(test)]
mod tests {
    use super::super::defects;
    use super::*;

    #[test]
    fn pages_have_what_ci_tells_by() {
        for (page, defects) in [(FAULTS, defects::FAULTS), (MUTATIONS, defects::MUTATIONS)] {
            let text = page.read().expect("a page of the repository");
            for defect in defects {
                let found = Found { defect: *defect, verdicts: Verdicts::new() };
                let listed = listed(&text, &found);
                assert!(listed.contains(defect.noticed), "{}", defect.name);
                assert!(!listed.contains(defect.spared), "{}", defect.name);
            }
        }
    }

    #[test]
    fn a_difference_names_the_cases() {
        let verdicts = [("a", "fail"), ("b", "pass"), ("c", "inconclusive")];
        let verdicts = verdicts.map(|(case, verdict)| (case.to_owned(), verdict.to_owned()));
        let found = Found { defect: defects::FAULTS[0], verdicts: verdicts.into_iter().collect() };
        assert_eq!(difference(&found, &["a", "c"].into()), None);
        let text = difference(&found, &["b"].into()).expect("two differences");
        assert!(text.ends_with("fail as well: [\"a\"]; do not fail: [\"b\"]"), "{text}");
        let section = found.section();
        assert_eq!(listed(&section, &found), ["a"].into());
    }
}
