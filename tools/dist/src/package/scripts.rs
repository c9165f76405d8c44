//! What runs when a package is removed. One text does for dpkg and rpm, which call it with words of their own.

/// Before the files go: stops and disables the service.
pub const BEFORE_REMOVAL: &str = include_str!("../../scripts/before-removal.sh");
/// After they went: the init system forgets the units, and a purge removes what the service had.
pub const AFTER_REMOVAL: &str = include_str!("../../scripts/after-removal.sh");

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use uroce_testbed::cleanup::Guard;
    use uroce_testbed::process::{command, run};

    use super::super::root::folder;
    use super::*;
    use crate::dist::write;

    /// A folder with a `systemctl` that notes down its words and fails.
    struct FakeHost {
        folder: PathBuf,
        _guard: Guard,
    }

    impl FakeHost {
        /// `tag` tells tests apart that run at the same time.
        fn new(tag: &str) -> Self {
            let (folder, _guard) = folder(&format!("scripts-{tag}")).expect("room");
            let systemctl = folder.join("bin/systemctl");
            let text = format!("#!/bin/sh\necho \"$@\" >> {}/said\nexit 1", folder.display());
            // Written by another process: what this one has open for writing, a child of another test may have, too, and
            // then it cannot be run.
            let store = r#"mkdir "${1%/*}" && printf '%s\n' "$2" > "$1" && chmod 755 "$1""#;
            let mut shell = command(["/bin/sh", "-c", store, "sh"]);
            run(shell.arg(systemctl).arg(text)).expect("room");
            Self { folder, _guard }
        }

        /// Runs a script, which must not fail, and returns what `systemctl` was told.
        fn run(&self, script: &str, word: &str, dpkg_root: &Path) -> String {
            let path = format!("{}:/usr/bin:/bin", self.folder.join("bin").display());
            let mut shell = command(["/bin/sh", "-c", script, "script", word]);
            run(shell.env("PATH", path).env("DPKG_ROOT", dpkg_root)).expect("it never fails");
            let said = fs::read_to_string(self.folder.join("said")).unwrap_or_default();
            let _ = fs::remove_file(self.folder.join("said"));
            said
        }
    }

    fn init_runs() -> bool {
        Path::new("/run/systemd/system").is_dir()
    }

    #[test]
    fn a_removal_stops_and_disables_both_units_and_an_upgrade_does_not() {
        let host = FakeHost::new("stop");
        let now = if init_runs() { "--now " } else { "" };
        let expected = format!("--quiet disable {now}uroce-serve.socket uroce-serve.service\n");
        for removal in ["remove", "0"] {
            assert_eq!(host.run(BEFORE_REMOVAL, removal, Path::new("")), expected, "{removal}");
        }
        for other in ["upgrade", "failed-upgrade", "deconfigure", "1", "2", ""] {
            assert_eq!(host.run(BEFORE_REMOVAL, other, Path::new("")), "", "{other}");
        }
        assert_eq!(host.run(BEFORE_REMOVAL, "remove", &host.folder), "", "another root");
        let reload = if init_runs() { "--quiet daemon-reload\n" } else { "" };
        assert_eq!(host.run(AFTER_REMOVAL, "remove", Path::new("")), reload);
    }

    #[test]
    fn a_removal_works_without_systemctl() {
        let (empty, _guard) = folder("scripts-empty").expect("room");
        for script in [BEFORE_REMOVAL, AFTER_REMOVAL] {
            for word in ["remove", "0"] {
                let mut shell = command(["/bin/sh", "-c", script, "script", word]);
                run(shell.env("PATH", &empty).env("DPKG_ROOT", "")).expect("it never fails");
            }
        }
    }

    #[test]
    fn a_purge_removes_the_settings_and_the_state_and_nothing_else() {
        let host = FakeHost::new("purge");
        let root = host.folder.join("root");
        let [settings, other] =
            ["uroce-serve", "other"].map(|name| root.join("etc/default").join(name));
        let slots = root.join("var/lib/private/uroce-serve/slots");
        for file in [&settings, &other, &slots] {
            write(file, b"x").expect("room");
        }
        let link = root.join("var/lib/uroce-serve");
        symlink("private/uroce-serve", &link).expect("room");
        for word in ["remove", "0", "upgrade", "1"] {
            assert_eq!(host.run(AFTER_REMOVAL, word, &root), "", "another root");
            assert!(settings.exists() && link.join("slots").exists(), "{word}");
        }
        assert_eq!(host.run(AFTER_REMOVAL, "purge", &root), "");
        assert!(!settings.exists() && !slots.exists() && link.symlink_metadata().is_err());
        assert!(other.exists() && root.join("var/lib/private").exists());
    }
}
