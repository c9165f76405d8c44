//! The index of the architecture decision records names each of them as its file does.

use std::path::Path;

#[test]
fn each_decision_record_is_in_the_index_with_its_title_and_status() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/adr");
    let index = std::fs::read_to_string(folder.join("README.md")).expect("the index");
    let mut records = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("a plain name");
        if name == "README.md" {
            continue;
        }
        records += 1;
        let text = std::fs::read_to_string(folder.join(&name)).expect("a record");
        let mut lines = text.lines().filter(|line| !line.is_empty());
        let (number, title) =
            lines.next().and_then(|line| line.strip_prefix("# ")?.split_once(". ")).expect("title");
        let (status, _date) = lines
            .next()
            .and_then(|line| line.strip_suffix('.')?.rsplit_once(". "))
            .expect("status");
        let row = format!("| [{number}]({name}) | {title} | {} |", status.to_lowercase());
        assert!(index.to_lowercase().contains(&row.to_lowercase()), "{name}: not found: {row}");
    }
    assert!(records >= 26, "{records} records");
}
