//! Whether a library of ours has all that a program takes from libibverbs and librdmacm. A name that it lacks is that of the
//! system's library, which would take our objects for its own.

use std::collections::BTreeSet;
use std::path::Path;

use crate::symbols;

/// The public versions of names, and how the files of their libraries begin.
const PUBLIC: [(&str, &str); 2] = [("libibverbs.so", "IBVERBS_1."), ("librdmacm.so", "RDMACM_1.")];

/// The public names that the file takes and that `ours` does not have, with their versions, in order. None for a file that
/// cannot be read: who loads it says why.
pub fn missing(file: &Path, ours: &BTreeSet<String>) -> Vec<String> {
    let taken = symbols::imports(file).unwrap_or_default();
    let is_public = |import: &symbols::Import| {
        let is_of = |(library, version): &(&str, &str)| {
            import.library.starts_with(library) && import.version.starts_with(version)
        };
        PUBLIC.iter().any(is_of)
    };
    let lacking = taken.iter().filter(|import| is_public(import) && !ours.contains(&import.name));
    let names: BTreeSet<String> =
        lacking.map(|import| format!("{} ({})", import.name, import.version)).collect();
    names.into_iter().collect()
}

/// What `missing` has found, for a user: what is wrong, and whose fault it is.
pub fn sentence(file: &Path, names: &[String]) -> String {
    let shown = names.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "{} needs {shown}{more}, which is newer than rdma-core 65 and not in this version of uroce",
        file.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_but_not_all_of_many() {
        let names: Vec<String> = (1..=5).map(|n| format!("ibv_{n} (IBVERBS_1.99)")).collect();
        let told = sentence(Path::new("/bin/x"), &names);
        assert!(told.starts_with("/bin/x needs ibv_1 (IBVERBS_1.99), ibv_2"), "{told}");
        assert!(told.contains("ibv_3 (IBVERBS_1.99) and 2 more, which is newer"), "{told}");
    }

    #[test]
    fn a_program_without_verbs_lacks_nothing() {
        assert!(missing(Path::new("/bin/true"), &BTreeSet::new()).is_empty());
        assert!(missing(Path::new("/no/such/file"), &BTreeSet::new()).is_empty());
    }
}
