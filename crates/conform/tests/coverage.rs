//! docs/conform/coverage.md is what the cases say.

use uroce_conform::coverage_page;

/// `UROCE_UPDATE=1` writes the page anew.
#[test]
fn the_page_of_coverage_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conform/coverage.md");
    if std::env::var_os("UROCE_UPDATE").is_some() {
        std::fs::write(path, coverage_page()).expect("the page is written");
    }
    let page = std::fs::read_to_string(path).expect("the page");
    let right = page == coverage_page();
    assert!(right, "run with UROCE_UPDATE=1 to write docs/conform/coverage.md anew");
}
