//! The tests of rdma-core itself, which Debian ships as documentation of python3-pyverbs.

use std::fs;
use std::path::{Path, PathBuf};

use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, run};

use super::TRIES;
use super::end::End;
use super::expected::Expected;
use super::record::Record;
use super::stage::Stage;

/// The interpreter for which Debian builds pyverbs.
const PYTHON: &str = "/usr/bin/python3";
const TESTS: &str = "usr/share/doc/rdma-core/tests";
/// The program that runs them, and writes down what becomes of each.
pub const RECORDER: &str = include_str!("record.py");
/// Tests of connections take the address of a network interface, which only root can make.
const CONNECTIONS: &str = "tests.test_rdmacm";

/// Runs all tests with the libraries in `folder`.
///
/// # Errors
/// The tests could not be run.
pub fn record(stage: &Stage, folder: &Path) -> Result<Record> {
    let home = unpack(&folder.join("pyverbs"))?;
    if !stage.has_interface() {
        println!("left out {CONNECTIONS}: they need a network interface of their own, and root");
    }
    run_tests(stage, folder, &home, &[])?;
    let mut record = read(&home)?;
    for _ in 1..TRIES {
        if record.failed().is_empty() {
            break;
        }
        println!("again   {}", record.failed().join(" "));
        run_tests(stage, folder, &home, &record.failed())?;
        record = read(&home)?;
    }
    if record.0.is_empty() {
        let printed = fs::read_to_string(output(folder)).unwrap_or_default();
        return Err(Error::new(format!("the tests did not run:\n{printed}")));
    }
    Ok(record)
}

/// Compares what became of the tests with what is expected.
///
/// # Errors
/// The differences, and what the last run printed.
pub fn check(record: &Record, stage: &Stage, folder: &Path) -> Result<()> {
    let mut expected = Expected::read()?;
    if !stage.has_interface() {
        expected.leave_out(CONNECTIONS);
    }
    expected.check(record).map_err(|differences| {
        let printed = fs::read_to_string(output(folder)).unwrap_or_default();
        Error::new(format!("{differences}\n{printed}"))
    })
}

fn output(folder: &Path) -> PathBuf {
    folder.join("pyverbs.out")
}

fn read(home: &Path) -> Result<Record> {
    let path = home.join("record");
    let text = fs::read_to_string(&path).context(|| "the tests left no record")?;
    Ok(Record::parse(&text))
}

/// Runs these tests; none means all.
fn run_tests(stage: &Stage, folder: &Path, home: &Path, names: &[&str]) -> Result<()> {
    let uroce = folder.join("bin/uroce").display().to_string();
    let script = home.join("record.py").display().to_string();
    let mut words = vec![&uroce, "run", "--device", &stage.alone, "--", PYTHON, &script];
    words.extend(names.iter().flat_map(|name| ["-k", name]));
    let mut command = stage.command(&words);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("RECORD", home.join("record"));
    if !stage.has_interface() {
        command.env("LEAVE_OUT", CONNECTIONS);
    }
    End::start(command.current_dir(home), &output(folder))?.finish()
}

/// Copies the tests, whose larger files are compressed, to where they can be run.
fn unpack(into: &Path) -> Result<PathBuf> {
    fs::create_dir_all(into).context(|| format!("could not make {}", into.display()))?;
    let installed = Path::new("/").join(TESTS);
    let source = if installed.is_dir() { installed } else { from_package(into)? };
    let tests = into.join("tests");
    run(command(["cp", "-r"]).arg(&source).arg(&tests))?;
    run(command(["sh", "-c", "gunzip \"$0\"/*.gz"]).arg(&tests))?;
    fs::write(into.join("record.py"), RECORDER).context(|| "could not write record.py")?;
    fs::write(into.join("record"), "").context(|| "could not make the record")?;
    run(command(["chmod", "-R", "a+rX"]).arg(into))?;
    run(command(["chmod", "a+w"]).arg(into.join("record")))?;
    Ok(into.to_owned())
}

/// Slim images leave documentation out when they install a package: this fetches it once more.
fn from_package(into: &Path) -> Result<PathBuf> {
    run(command(["apt-get", "download", "-q", "python3-pyverbs"]).current_dir(into))?;
    run(command(["sh", "-c", "dpkg -x python3-pyverbs_*.deb package"]).current_dir(into))?;
    Ok(into.join("package").join(TESTS))
}
