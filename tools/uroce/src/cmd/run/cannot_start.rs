//! Why the system did not start a program that is there.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use rustix::io::Errno;

use super::program;
use crate::failure::Failure;

/// A program for another machine; a shell would take it for a script.
pub fn foreign(name: &OsStr, machine: &str) -> Failure {
    let own = std::env::consts::ARCH;
    let what =
        format!("cannot start {name:?}: it is a program for {machine}, and this machine is {own}");
    Failure::environment(what).help(format!("run a program that was built for {own}"))
}

/// The sentence for the answer of execve(2).
pub fn why(name: &OsStr, path: Option<&Path>, error: &io::Error) -> Failure {
    let said = |what: &str| Failure::environment(format!("cannot start {name:?}: {what}"));
    match Errno::from_io_error(error) {
        Some(Errno::NOEXEC) => said("it is neither a program that this kernel knows nor a script")
            .help("look at it with `file`; it may be damaged, or not a program at all"),
        Some(Errno::ACCESS | Errno::PERM) => said(
            "it is not executable for this user, or lies on a file system that is mounted noexec",
        )
        .help("`chmod +x` it, or copy it to where programs may be"),
        // The file itself is there, or it would not have come so far.
        Some(Errno::NOENT) => match path.and_then(program::interpreter) {
            Some(linker) => said(&format!("its dynamic linker {} is not here", linker.display()))
                .help("install the C library that it was built for, such as libc6 or musl"),
            None => said("the interpreter in its first line is not here")
                .help("install it, or correct the line that begins with `#!`"),
        },
        _ => said(&error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_of_the_kernel_has_its_sentence() {
        let own = std::env::current_exe().expect("this test");
        let said = |errno: Errno, path: &Path| {
            let failure = why(OsStr::new("x"), Some(path), &errno.into());
            format!("{}; {}", failure.what, failure.help.unwrap_or_default())
        };
        assert!(said(Errno::NOENT, &own).contains("its dynamic linker /"));
        assert!(said(Errno::NOENT, Path::new("/proc/self/maps")).contains("`#!`"));
        assert!(said(Errno::NOEXEC, &own).contains("damaged"));
        assert!(said(Errno::ACCESS, &own).contains("noexec"));
        assert!(said(Errno::NOMEM, &own).contains("annot allocate memory"));
    }
}
