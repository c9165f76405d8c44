//! Starting other programs and saying clearly what failed.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Context, Error, Result};

/// Put before a command's words, runs it as the user nobody and without any capability.
pub const AS_NOBODY: &[&str] = &[
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
    "--no-new-privs",
];

/// The same, but with `capabilities` (such as `net_raw`) and those only.
pub fn as_nobody_with(capabilities: &[&str]) -> Vec<String> {
    let mut words: Vec<String> = AS_NOBODY.iter().map(|word| (*word).to_owned()).collect();
    if capabilities.is_empty() {
        return words;
    }
    let plus: String = capabilities.iter().map(|capability| format!(",+{capability}")).collect();
    words.retain(|word| !word.starts_with("--inh-caps"));
    words.extend(["--inh-caps", "--ambient-caps"].map(|which| format!("{which}=-all{plus}")));
    words
}

/// A command from its words: `command(["ip", "link"])`.
///
/// # Panics
/// When `words` is empty, which is a mistake in this program.
pub fn command<I, S>(words: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().expect("a command has a first word"));
    command.args(words).stdin(Stdio::null());
    command
}

/// The last `lines` lines of what a program has written to `log`; nothing if there is no such file.
pub fn end_of_log(log: &Path, lines: usize) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Runs `command`, keeps quiet when it succeeds and shows its output when it fails.
///
/// # Errors
/// The program is missing, or it exited with something other than 0.
pub fn run(command: &mut Command) -> Result<()> {
    stdout_of(command).map(drop)
}

/// Runs `command` and returns what it wrote to its standard output.
///
/// # Errors
/// As [`run`].
pub fn stdout_of(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let output = command.output().context(|| format!("could not start `{line}`"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("`{line}` failed ({}):\n{stdout}{stderr}", output.status)))
}

/// The command line as a person would type it.
pub fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Where `program` is, looking also in the system folders that a user's `PATH` leaves out.
pub fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// True when this process may do everything (effective user 0).
pub fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| effective_user(&status) == Some(0))
}

fn effective_user(status: &str) -> Option<u32> {
    let line = status.lines().find(|line| line.starts_with("Uid:"))?;
    line.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_and_shows_its_output() {
        let error =
            run(&mut command(["sh", "-c", "echo broken >&2; exit 3"])).unwrap_err().to_string();
        assert!(
            error.contains("sh -c") && error.contains("broken") && error.contains('3'),
            "{error}"
        );
    }

    #[test]
    fn nobody_gets_the_named_capabilities_only() {
        assert_eq!(as_nobody_with(&[]), AS_NOBODY);
        let words = as_nobody_with(&["net_raw", "bpf"]);
        assert!(words.contains(&"--reuid=65534".to_owned()), "{words:?}");
        let granted = words.iter().filter(|word| word.contains("caps="));
        assert_eq!(
            granted.collect::<Vec<_>>(),
            ["--inh-caps=-all,+net_raw,+bpf", "--ambient-caps=-all,+net_raw,+bpf"]
        );
    }

    #[test]
    fn the_effective_user_is_the_second_number() {
        assert_eq!(effective_user("Name:\tx\nUid:\t1000\t0\t1000\t1000\n"), Some(0));
        assert_eq!(effective_user("Name:\tx\n"), None);
    }

    #[test]
    fn programs_of_the_system_are_found() {
        assert!(find_program("sh").is_some());
        assert_eq!(find_program("no-such-program-here"), None);
    }

    #[test]
    fn the_end_of_a_log_is_its_last_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        assert_eq!(end_of_log(&log, 60), "", "no such file");
        fs::write(&log, "one\ntwo\n").expect("written");
        assert_eq!(end_of_log(&log, 60), "one\ntwo");
        let long: String = (0..100).map(|line| format!("{line}\n")).collect();
        fs::write(&log, long).expect("written");
        let end = end_of_log(&log, 60);
        assert!(end.starts_with("40\n") && end.ends_with("\n99"), "{end}");
    }
}
