//! Tables in docs/interop.md that are written by what they are about.

use std::fs;

use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::workspace;

const DOCUMENT: &str = "docs/interop.md";

/// Replaces what stands between the marks `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
///
/// # Errors
/// The document has no place for it, or cannot be written.
pub fn replace(name: &str, table: &str) -> Result<()> {
    let path = workspace::root().join(DOCUMENT);
    let text = fs::read_to_string(&path).context(|| format!("could not read {DOCUMENT}"))?;
    let fresh = replaced(&text, name, table)?;
    fs::write(&path, fresh).context(|| format!("could not write {DOCUMENT}"))
}

fn replaced(document: &str, name: &str, table: &str) -> Result<String> {
    let [begin, end] = ["begin", "end"].map(|mark| format!("<!-- {name}: {mark} -->\n"));
    let parts = document.split_once(&begin).and_then(|(before, rest)| {
        rest.split_once(&end).map(|(_, after)| format!("{before}{begin}{table}{end}{after}"))
    });
    parts.ok_or_else(|| Error::new(format!("{DOCUMENT} has no place for the table `{name}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_table_changes() {
        let document = "before\n<!-- x: begin -->\nold\n<!-- x: end -->\nafter\n";
        let fresh = replaced(document, "x", "new\n").expect("there is a place");
        assert_eq!(fresh, "before\n<!-- x: begin -->\nnew\n<!-- x: end -->\nafter\n");
        assert!(replaced("nothing", "x", "new\n").is_err());
    }
}
