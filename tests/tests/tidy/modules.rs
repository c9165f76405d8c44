//! One form of modules.

use crate::tree::texts;

#[test]
fn a_module_is_a_file_named_as_its_folder() {
    let found: Vec<_> =
        texts().into_iter().map(|(file, _)| file).filter(|f| f.ends_with("/mod.rs")).collect();
    assert!(found.is_empty(), "rename FOLDER/mod.rs to FOLDER.rs: {found:#?}");
}
