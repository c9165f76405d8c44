//! `cargo xtask dist`: the program `uroce`, both forms of libibverbs and librdmacm, licences, documents,
//! manual pages and completions, laid out as a package installs them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use uroce_testbed::error::{Context, Result};
use uroce_testbed::install::Linker;
use uroce_testbed::process::{command, run as run_command, stdout_of};
use uroce_testbed::{install, workspace};

use crate::notices;

/// Files that are installed as they are, where they lie: manual pages of chapter 7, units of systemd.
const AS_THEY_ARE: &str = "tools/dist/files";

/// Options of `dist`.
#[derive(Debug, Args)]
pub struct DistArgs {
    /// Where to put everything [default: `dist` in cargo's build folder]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Link with the names of glibc 2.28, for older systems than this one (needs cargo-zigbuild)
    #[arg(long)]
    portable: bool,
}

/// Builds with optimisation and prints where everything is.
///
/// # Errors
/// It does not build.
pub fn run(args: &DistArgs) -> Result<()> {
    let default = || workspace::target_folder().join("dist");
    let out = args.out.clone().unwrap_or_else(default);
    make(&out, if args.portable { Linker::Portable } else { Linker::OfThisSystem })?;
    println!("{}", out.display());
    Ok(())
}

/// The same into `out`.
///
/// # Errors
/// It does not build.
pub fn make(out: &Path, linker: Linker) -> Result<()> {
    install::optimised(out, linker)?;
    accompany(out)
}

/// The same, built as CI builds everything.
///
/// # Errors
/// It does not build.
pub fn make_for_tests(out: &Path) -> Result<()> {
    install::for_tests(out, &[])?;
    accompany(out)
}

/// Puts licences, documents, manual pages and completions where a package has them, and strips the program.
fn accompany(out: &Path) -> Result<()> {
    let program = out.join("bin/uroce");
    run_command(command(["strip"]).arg(&program))?;
    let documents = out.join("share/doc/uroce");
    let copies = [
        ("README.md", "README.md"),
        ("docs/CHANGELOG.md", "CHANGELOG.md"),
        ("docs/licenses/MIT.txt", "LICENSE-MIT"),
        ("docs/licenses/Apache-2.0.txt", "LICENSE-APACHE"),
    ];
    for (from, to) in copies {
        let from = workspace::root().join(from);
        let text = fs::read(&from).context(|| format!("could not read {}", from.display()))?;
        write(&documents.join(to), &text)?;
    }
    for unit in ["uroce-serve.service", "uroce-serve.socket"] {
        let from = workspace::root().join("tools/dist/systemd").join(unit);
        let text = fs::read(&from).context(|| format!("could not read {}", from.display()))?;
        write(&out.join("lib/systemd/system").join(unit), &text)?;
    }
    write(&documents.join("THIRD-PARTY.md"), notices::collect()?.as_bytes())?;
    let completions = [
        ("bash", "share/bash-completion/completions/uroce"),
        ("zsh", "share/zsh/site-functions/_uroce"),
        ("fish", "share/fish/vendor_completions.d/uroce.fish"),
    ];
    for (shell, file) in completions {
        write(&out.join(file), completions_of(&program, shell)?.as_bytes())?;
    }
    run_command(command([program.as_path(), Path::new("man")]).arg(out.join("share/man/man1")))?;
    let files = workspace::root().join(AS_THEY_ARE);
    run_command(command(["cp", "-R"]).arg(files.join(".")).arg(out))
}

/// What `program completions SHELL` prints; an error where it fails, instead of an empty file in the package.
fn completions_of(program: &Path, shell: &str) -> Result<String> {
    stdout_of(command([program, Path::new("completions")]).arg(shell))
}

/// Writes a file and makes the folders that it is in.
///
/// # Errors
/// There is no room, or no right to write there.
pub fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(file, bytes))
        .context(|| format!("could not write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_makes_no_completions() {
        let error = completions_of(Path::new("false"), "bash").expect_err("it fails");
        assert!(error.to_string().contains("false completions bash"), "{error}");
    }
}
