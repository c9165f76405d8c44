//! `uroce man`, as a package runs it.

use std::process::Command;

use crate::common::{text, uroce};

#[test]
fn each_command_of_the_help_has_a_page() {
    let folder = std::env::temp_dir().join(format!("uroce-{}-man", std::process::id()));
    let pages = folder.join("man1");
    let words = format!("man {}", pages.display());
    let output = uroce(&words).output().expect("the program was built");
    assert!(output.status.success(), "{}", text(&output));
    let help = text(&uroce("--help").output().expect("the program was built"));
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names: Vec<_> = listed
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() >= 20, "{names:?}");
    for name in names {
        let page = pages.join(format!("uroce-{name}.1"));
        let page = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.contains(".SH EXAMPLES"), "{name}");
    }
    let root = std::fs::read_to_string(pages.join("uroce.1")).expect("the page of all");
    assert!(root.contains("Exit codes"), "{root}");
    lint(&pages);
    let _ = std::fs::remove_dir_all(&folder);
}

/// groff takes every page without a warning, where it is installed.
fn lint(pages: &std::path::Path) {
    for page in std::fs::read_dir(pages).expect("the pages") {
        let page = page.expect("readable").path();
        let words = ["-man", "-Tutf8", "-ww", "-z"];
        let Ok(output) = Command::new("groff").args(words).arg(&page).output() else {
            assert!(std::env::var_os("CI").is_none(), "CI must have groff");
            return println!("skipped: there is no groff here");
        };
        assert!(output.stderr.is_empty(), "{}: {}", page.display(), text(&output));
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_told() {
    let output = uroce("man /proc/no/such").output().expect("the program was built");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("cannot write manual pages into /proc/no/such"));
}
