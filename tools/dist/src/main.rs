//! `cargo xtask dist`: the program `uroce`, both forms of libibverbs and librdmacm, licences, documents,
//! manual pages and completions, laid out as a package installs them.
#![forbid(unsafe_code)]

mod notices;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use uroce_testbed::error::{Context, Result};
use uroce_testbed::process::{command, run, stdout_of};
use uroce_testbed::{install, workspace};

/// Build what users install: the program and both forms of libibverbs, in one folder.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask dist")]
struct Cli {
    /// Where to put everything [default: `dist` in cargo's build folder]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    let default = || workspace::target_folder().join("dist");
    match make(&Cli::parse().out.unwrap_or_else(default)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds with optimisation and prints where everything is.
fn make(out: &Path) -> Result<()> {
    install::optimised(out)?;
    accompany(out)?;
    println!("{}", out.display());
    Ok(())
}

/// Puts licences, documents, manual pages and completions where a package has them, and takes the line tables out of the program.
fn accompany(out: &Path) -> Result<()> {
    let program = out.join("bin/uroce");
    run(command(["strip", "--strip-debug"]).arg(&program))?;
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
    run(command([program.as_path(), Path::new("man")]).arg(out.join("share/man/man1")))
}

/// What `program completions SHELL` prints; an error where it fails, instead of an empty file in the package.
fn completions_of(program: &Path, shell: &str) -> Result<String> {
    stdout_of(command([program, Path::new("completions")]).arg(shell))
}

/// Writes a file and makes the folders that it is in.
fn write(file: &Path, bytes: &[u8]) -> Result<()> {
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
