//! The tests of rdma-core itself, which Debian ships as documentation of python3-pyverbs.

use std::fs;
use std::path::{Path, PathBuf};

use super::end::End;
use crate::ci::as_nobody;
use crate::error::{Context, Error, Result};
use crate::process::{command, run};

/// The interpreter for which Debian builds pyverbs.
const PYTHON: &str = "/usr/bin/python3";
const TESTS: &str = "usr/share/doc/rdma-core/tests";
/// Tests of librdmacm, which is the system's: it wants a kernel.
const CONNECTIONS: [&str; 2] = ["test_rdmacm.py", "test_mlx5_rdmacm.py"];
/// Both ends of each test are in one process, on one device.
const ADDRESS: &str = "127.47.91.3";

/// What a run of the tests ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Score {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that need what this device has not: raw packets, XRC, device memory, ...
    pub skipped: usize,
}

/// Runs all tests with the libraries in `folder`.
///
/// # Errors
/// A test failed; the error is what the tests printed.
pub fn tests(folder: &Path) -> Result<Score> {
    let tests = unpack(&folder.join("pyverbs"))?;
    let uroce = folder.join("bin/uroce").display().to_string();
    let script = tests.join("run_tests.py").display().to_string();
    let mut words: Vec<&str> = as_nobody().to_vec();
    words.extend([&uroce, "run", "--device", ADDRESS, "--", PYTHON, &script]);
    let output = folder.join("pyverbs.out");
    let top = tests.parent().unwrap_or(&tests).to_owned();
    let path = format!("{}:{}", tests.display(), top.display());
    let mut command = command(words);
    command.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(top);
    End::start(&mut command, &output)?.finish()?;
    let printed = fs::read_to_string(&output).unwrap_or_default();
    score(&printed).ok_or_else(|| Error::new(format!("the tests did not say how many:\n{printed}")))
}

/// `Ran 273 tests in 13.395s` and `OK (skipped=172)`.
fn score(printed: &str) -> Option<Score> {
    let all: usize = printed.split_once("\nRan ")?.1.split(' ').next()?.parse().ok()?;
    let skipped = printed.rsplit_once("\nOK (skipped=").and_then(|(_, rest)| rest.split_once(')'));
    let skipped = skipped.map_or(Some(0), |(number, _)| number.parse().ok())?;
    Some(Score { passed: all.checked_sub(skipped)?, skipped })
}

/// Copies the tests, whose larger files are compressed, to where they can be run.
fn unpack(into: &Path) -> Result<PathBuf> {
    fs::create_dir_all(into).context(|| format!("could not make {}", into.display()))?;
    let installed = Path::new("/").join(TESTS);
    let source = if installed.is_dir() { installed } else { from_package(into)? };
    let tests = into.join("tests");
    run(command(["cp", "-r"]).arg(&source).arg(&tests))?;
    run(command(["sh", "-c", "gunzip \"$0\"/*.gz"]).arg(&tests))?;
    for file in CONNECTIONS {
        fs::remove_file(tests.join(file)).context(|| format!("no {file}"))?;
    }
    run(command(["chmod", "-R", "a+rX"]).arg(into))?;
    Ok(tests)
}

/// Slim images leave documentation out when they install a package: this fetches it once more.
fn from_package(into: &Path) -> Result<PathBuf> {
    run(command(["apt-get", "download", "-q", "python3-pyverbs"]).current_dir(into))?;
    run(command(["sh", "-c", "dpkg -x python3-pyverbs_*.deb package"]).current_dir(into))?;
    Ok(into.join("package").join(TESTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_read() {
        let line = "-----\nRan 273 tests in 13.395s\n\nOK (skipped=172)\n";
        assert_eq!(score(line), Some(Score { passed: 101, skipped: 172 }));
        let line = "-----\nRan 3 tests in 1.0s\n\nOK\n";
        assert_eq!(score(line), Some(Score { passed: 3, skipped: 0 }));
        assert_eq!(score("Traceback"), None);
    }
}
