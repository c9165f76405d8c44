//! Environment variables, as far as a program may believe them.

use std::ffi::OsString;

use crate::sys::credentials::is_secure;

/// An environment variable. `None` also in a program that has more rights than whoever started it (set-user-ID,
/// set-group-ID, file capabilities): its variables are that user's, and could make it write files as another one.
/// The same as secure_getenv(3).
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    if is_secure() { None } else { std::env::var_os(name) }
}

/// As [`variable`], for what is text.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    variable(name)?.into_string().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::process::Command;

    use super::*;

    const NAME: &str = "TEST_VARIABLE";
    /// Set in the copy of this program that runs with the rights of another user.
    const ALONE: &str = "TEST_RUNS_ALONE";
    const NOBODY: u32 = 65534;

    #[test]
    fn a_variable_is_believed_in_a_program_with_the_rights_of_its_user() {
        assert!(variable("PATH").is_some() && text("PATH").is_some());
        assert_eq!(variable(NAME), None);
    }

    #[test]
    fn a_program_with_more_rights_than_its_user_is_told_nothing() {
        if std::env::var_os(ALONE).is_some() {
            assert!(std::env::var_os(NAME).is_some() && variable(NAME).is_none());
            return;
        }
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "not root");
            eprintln!("skipped: needs root, to make a program of another user");
            return;
        }
        let copy = std::env::temp_dir().join(format!("uroce-set-user-id-{}", std::process::id()));
        fs::copy(std::env::current_exe().expect("/proc"), &copy).expect("there is room");
        chown(&copy, Some(NOBODY), None).expect("root may");
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).expect("root may");
        let test = "environment::tests::a_program_with_more_rights_than_its_user_is_told_nothing";
        let mut command = Command::new(&copy);
        command.args(["--exact", test]).env(NAME, "1").env(ALONE, "1");
        let done = command.output();
        fs::remove_file(&copy).expect("it is there");
        let done = done.expect("it starts");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
    }
}
