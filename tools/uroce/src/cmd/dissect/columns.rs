//! Chosen fields in columns, as `tshark -T fields` prints them.

use std::io::{self, Write};

use uroce_analyze::{Layer, field_names};

/// The name as the analysis has it.
///
/// # Errors
/// There is no such field; names that are like it.
pub(super) fn name(text: &str) -> Result<&'static str, String> {
    let names = field_names();
    if let Some(name) = names.iter().find(|name| **name == text) {
        return Ok(name);
    }
    let word = text.rsplit('.').next().unwrap_or(text);
    let near: Vec<_> = names.into_iter().filter(|name| name.contains(word)).take(5).collect();
    Err(match near.as_slice() {
        [] => "there is no such field; docs/dissect.md has all names".to_owned(),
        near => format!("there is no such field; there are {}", near.join(", ")),
    })
}

/// Prints one line: the values of `names` with tabs between them, several of one name with commas.
pub(super) fn print(names: &[&str], layers: &[Layer], out: &mut impl Write) -> io::Result<()> {
    for (column, name) in names.iter().enumerate() {
        let tab = if column == 0 { "" } else { "\t" };
        let values: Vec<_> = layers.iter().flat_map(|layer| layer.values(name)).collect();
        write!(out, "{tab}{}", values.join(","))?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_brings_the_right_one() {
        assert_eq!(name("infiniband.bth.psn"), Ok("infiniband.bth.psn"));
        let error = name("bth.psn").expect_err("no such field");
        assert!(error.contains("infiniband.bth.psn"), "{error}");
        assert!(name("nothing.like.that").expect_err("no such field").contains("docs/dissect.md"));
    }
}
