//! What runs at the end of a process.

use std::process::Command;

use uroce_host::at_exit;

/// Names a file, in the process that is to end.
const MARK: &str = "UROCE_TEST_EXIT_MARK";

extern "C" fn mark() {
    let path = std::env::var_os(MARK).expect("only where it is set");
    std::fs::write(path, b"ended").expect("written");
}

/// Does something only when the test below starts this program again.
#[test]
fn a_process_that_ends() {
    if std::env::var_os(MARK).is_some() {
        at_exit(mark);
    }
}

#[test]
fn a_function_runs_when_the_process_exits() {
    let path = std::env::temp_dir().join(format!("uroce-exit-{}", std::process::id()));
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", "exit::a_process_that_ends"])
        .env(MARK, &path)
        .output()
        .expect("started");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read(&path).expect("it ran"), b"ended");
    std::fs::remove_file(path).expect("removed");
}
