//! The tests of rdma-core as each release of Debian has them, in a root of that release, on our libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use uroce_rxe_guest::apt;
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, run as run_command};
use uroce_testbed::workspace::target_folder;

use crate::document;
use crate::programs::{End, RECORDER, Record, Stage, exports, install};

/// A release: its name in a table, that of its archive, and its rdma-core.
type DebianRelease = (&'static str, &'static str, &'static str);
const RELEASES: [DebianRelease; 3] = [
    ("Debian 12", "bookworm", "44"),
    ("Debian 13", "trixie", "56.1"),
    ("Debian testing", "testing", "65"),
];

/// What the tests need. `iproute2` says which addresses interfaces have.
const PACKAGES: &str = "python3-pyverbs,ibverbs-providers,librdmacm1,iproute2";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const TABLE: &str = "releases";
/// Where everything of ours is in a root.
const OURS: &str = "uroce-tests";
const TIME_LIMIT: Duration = Duration::from_secs(900);
/// How many huge pages the system has; four tests of rdma-core 65 need some.
const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";
/// Enough for them, where the system has none.
const ENOUGH: &str = "64";

/// What runs in a mount namespace of its own: `$1` is the root, `$2` the address.
const SCRIPT: &str = r#"
for folder in dev sys; do mount --rbind /$folder "$1/$folder"; done
mount -t proc proc "$1/proc" && mount -t tmpfs -o mode=1777 tmpfs "$1/tmp" && mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
exec chroot --userspec=65534:65534 "$1" sh -c 'cd /uroce-tests && RECORD=$PWD/record PYTHONDONTWRITEBYTECODE=1 \
  exec bin/uroce run --device "$1" -- /usr/bin/python3 record.py' sh "$2"
"#;

/// Options of `releases`.
#[derive(Debug, Args)]
pub struct ReleasesArgs {
    /// Only this release: bookworm, trixie, testing.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Write the table into docs/interop.md.
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

/// Runs the tests in each root, which is made at the first run.
///
/// # Errors
/// A test failed, a root cannot be made, or this is not root.
pub fn run(arguments: &ReleasesArgs) -> Result<()> {
    let (folder, _guard) = install::install()?;
    let stage = Stage::set_up()?;
    if !stage.has_interface() {
        return Err(Error::new("the roots need root: run this with sudo"));
    }
    let _huge_pages = HugePages::lend();
    let mut table =
        String::from("| release | rdma-core | ok | failed | skipped |\n|---|---|---|---|---|\n");
    let mut failed = 0;
    for release in
        RELEASES.iter().filter(|one| arguments.only.as_ref().is_none_or(|only| only == one.1))
    {
        let (name, suite, version) = release;
        let root = root(suite)?;
        for library in exports::LIBRARIES {
            let file = library_in(&root, library)?;
            println!("{name}: {library}: {}", exports::check_against(&file, library, &folder)?);
        }
        let record = record(&root, &folder, &stage)?;
        let failures = record.failed();
        let (passed, skipped) = (record.passed(), record.skipped());
        println!("{name}: {passed} ok, {} failed, {skipped} skipped", failures.len());
        for test in &failures {
            println!("  {test}: {}", record.0[*test]);
        }
        failed += failures.len() + usize::from(passed == 0);
        table += &format!("| {name} | {version} | {passed} | {} | {skipped} |\n", failures.len());
    }
    if arguments.write {
        document::replace(TABLE, &table)?;
    }
    if failed == 0 { Ok(()) } else { Err(Error::new(format!("{failed} tests failed: see above"))) }
}

/// A root of this release with the tests in it; made once.
fn root(suite: &str) -> Result<PathBuf> {
    let roots = target_folder().join("roots");
    let (root, made) = (roots.join(suite), roots.join(format!("{suite}.made")));
    if made.is_file() {
        return Ok(root);
    }
    println!("making a root of {suite}");
    fs::create_dir_all(&roots).context(|| format!("could not make {}", roots.display()))?;
    if root.exists() {
        fs::remove_dir_all(&root).context(|| format!("could not remove {}", root.display()))?;
    }
    let source = format!("deb [signed-by={KEYRING}] {} {suite} main", apt::archive()?);
    let mut make = command(["mmdebstrap", "--quiet", "--mode=root", "--variant=apt"]);
    // A mirror of testing may be some days old.
    make.arg(format!("--include={PACKAGES}")).arg("--aptopt=Acquire::Check-Valid-Until \"false\"");
    make.args(["--aptopt=APT::Install-Recommends \"0\"", "--skip=check/empty", suite]);
    run_command(make.env("TMPDIR", &roots).arg(&root).arg(source))?;
    fs::write(&made, "").context(|| format!("could not write {}", made.display()))?;
    Ok(root)
}

/// Huge pages that the system has for as long as the tests run.
struct HugePages(bool);

impl HugePages {
    /// A system that has some keeps its own; one that has no room for them skips tests.
    fn lend() -> Self {
        let has_none = fs::read_to_string(HUGE_PAGES).is_ok_and(|text| text.trim() == "0");
        HugePages(has_none && fs::write(HUGE_PAGES, ENOUGH).is_ok())
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if self.0 && fs::write(HUGE_PAGES, "0").is_err() {
            println!("{HUGE_PAGES} still says {ENOUGH}: it was 0");
        }
    }
}

fn library_in(root: &Path, library: &str) -> Result<String> {
    let folder = root.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let file = folder.join(library);
    if file.exists() {
        return Ok(file.display().to_string());
    }
    Err(Error::new(format!("there is no {}", file.display())))
}

/// Runs all tests as the user nobody.
fn record(root: &Path, folder: &Path, stage: &Stage) -> Result<Record> {
    let ours = root.join(OURS);
    if ours.exists() {
        fs::remove_dir_all(&ours).context(|| format!("could not remove {}", ours.display()))?;
    }
    fs::create_dir_all(&ours).context(|| format!("could not make {}", ours.display()))?;
    for part in ["bin", "lib"] {
        run_command(command(["cp", "-a"]).arg(folder.join(part)).arg(&ours))?;
    }
    let tests = root.join("usr/share/doc/rdma-core/tests");
    run_command(command(["cp", "-r"]).arg(tests).arg(ours.join("tests")))?;
    run_command(command(["sh", "-c", "gunzip \"$0\"/*.gz"]).arg(ours.join("tests")))?;
    for (name, text) in [("record.py", RECORDER), ("record", "")] {
        fs::write(ours.join(name), text).context(|| format!("could not write {name}"))?;
    }
    run_command(command(["chmod", "-R", "a+rX"]).arg(&ours))?;
    run_command(command(["chmod", "a+w"]).arg(ours.join("record")))?;
    let root_name = root.display().to_string();
    let words = ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", &root_name, &stage.alone];
    let output = ours.join("output");
    End::start(&mut stage.command_as_root(&words), &output)?.within(TIME_LIMIT).finish()?;
    let text = fs::read_to_string(ours.join("record")).context(|| "the tests left no record")?;
    Ok(Record::parse(&text))
}
