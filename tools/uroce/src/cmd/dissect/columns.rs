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
    Err(match like(text, &names).as_slice() {
        [] => format!("there is no such field; {ALL}"),
        near => format!("there is no such field; like it are {}; {ALL}", near.join(", ")),
    })
}

/// Where all names are.
const ALL: &str = "`uroce dissect FILE -v` shows the names of all fields that FILE has, docs/dissect.md those that \
                   Wireshark has not";

/// Names that are told of a wrong one.
const MOST: usize = 5;

/// Names with the last word of `text`, else those that begin as it does, the first part at least.
fn like(text: &str, names: &[&'static str]) -> Vec<&'static str> {
    let (group, word) = text.rsplit_once('.').unwrap_or(("", text));
    let has_word = |name: &&&str| !word.is_empty() && name.contains(word);
    let near: Vec<_> = names.iter().filter(has_word).take(MOST).copied().collect();
    if !near.is_empty() {
        return near;
    }
    let first = group.split('.').next().unwrap_or_default();
    let same = |name: &str| name.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    let mut near: Vec<_> = names
        .iter()
        .filter(|name| !first.is_empty() && same(name) > first.len())
        .copied()
        .collect();
    near.sort_by_key(|name| std::cmp::Reverse(same(name)));
    near.truncate(MOST);
    near
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
        for (wrong, right) in [
            ("infiniband.bth.psnn", "like it are infiniband.bth.psn,"),
            ("infiniband.bth.foo", "infiniband.bth.opcode"),
            ("ip.source", "like it are ip.src,"),
        ] {
            let error = name(wrong).expect_err("no such field");
            assert!(error.contains(right) && error.contains("dissect FILE -v"), "{error}");
        }
        assert!(name("nothing.like.that").expect_err("no such field").contains("docs/dissect.md"));
    }
}
