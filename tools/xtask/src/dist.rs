//! `cargo xtask dist`: the program `uroce`, both forms of libibverbs and librdmacm, licences, documents,
//! manual pages and completions, laid out as a package installs them.
//!
//! The library is linked here and not by cargo: rustc gives each shared library of its own a version
//! script, next to which one of ours, with the symbol versions of rdma-core, has no effect.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::{Context, Result};
use crate::notices;
use crate::process::{command, run as run_command, stdout_of};
use crate::workspace;

/// Options of `dist`.
#[derive(Debug, Args)]
pub struct DistArgs {
    /// Where to put everything [default: `dist` in cargo's build folder]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Versions of the symbols, as in rdma-core.
const VERSIONS: &str = "crates/cabi/libibverbs.map";
/// Names of librdmacm.
const CONNECTIONS: &str = "crates/cabi/librdmacm.map";

/// Builds with optimisation and prints where everything is.
///
/// # Errors
/// It does not compile, or there is no C compiler to link with.
pub fn run(arguments: &DistArgs) -> Result<()> {
    let default = || workspace::target_folder().join("dist");
    let out = arguments.out.clone().unwrap_or_else(default);
    optimised(&out)?;
    accompany(&out)?;
    println!("{}", out.display());
    Ok(())
}

/// Builds with optimisation and puts everything into `out`.
///
/// # Errors
/// As [`run`].
pub fn optimised(out: &Path) -> Result<()> {
    build()?;
    lay_out(&workspace::target_folder().join("release"), out)
}

/// The same as [`run`] with the profile of CI and with features (`PACKAGE/FEATURE`), for tests.
///
/// # Errors
/// As [`run`].
pub fn for_tests(out: &Path, features: &[&str]) -> Result<()> {
    workspace::build_all_with(features)?;
    lay_out(&workspace::build_folder(), out)
}

/// Puts licences, documents, manual pages and completions where a package has them, and takes the line tables out of the program.
fn accompany(out: &Path) -> Result<()> {
    let program = out.join("bin/uroce");
    run_command(command(["strip", "--strip-debug"]).arg(&program))?;
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
    write(&documents.join("THIRD-PARTY.md"), notices::collect()?.as_bytes())?;
    let completions = [
        ("bash", "share/bash-completion/completions/uroce"),
        ("zsh", "share/zsh/site-functions/_uroce"),
        ("fish", "share/fish/vendor_completions.d/uroce.fish"),
    ];
    for (shell, file) in completions {
        write(&out.join(file), completions_of(&program, shell)?.as_bytes())?;
    }
    run_command(command([program.as_path(), Path::new("man")]).arg(out.join("share/man/man1")))
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

fn build() -> Result<()> {
    let words = ["build", "--release", "--locked", "--quiet"];
    run_command(workspace::cargo(&words).args(["--package", "uroce", "--package", "uroce-cabi"]))
}

fn lay_out(built: &Path, out: &Path) -> Result<()> {
    let (bin, lib) = (out.join("bin"), out.join("lib/uroce"));
    for folder in [&bin, &lib.join("drop-in")] {
        fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))?;
    }
    fs::copy(built.join("uroce"), bin.join("uroce")).context(|| "could not copy uroce")?;
    let archive = built.join("liburoce_cabi.a");
    let read = |map: &str| {
        fs::read_to_string(workspace::root().join(map)).context(|| format!("could not read {map}"))
    };
    let names = read(VERSIONS)? + &read(CONNECTIONS)?;
    let linked = |library: &str, names: &str, interposed: &[&str]| {
        let script = lib.join("names.map");
        fs::write(&script, names).context(|| "could not write a linker script")?;
        link(&archive, &lib.join(library), &script, interposed)?;
        fs::remove_file(&script).context(|| "could not remove a linker script")
    };
    linked("drop-in/libibverbs.so.1", &names, &[])?;
    linked("drop-in/liburoce_paths.so", &without_versions("", INTERPOSED), INTERPOSED)?;
    let all = [INTERPOSED, LOADING].concat();
    linked("liburoce_ibverbs.so", &without_versions(&names, &all), &all)?;
    same_library("libibverbs.so.1", &lib.join("drop-in/librdmacm.so.1"))
}

/// One library under two names. The dynamic linker knows that it is the same file, and loads it once: a
/// second copy would have devices of its own.
fn same_library(library: &str, name: &Path) -> Result<()> {
    let why = || format!("could not make {}", name.display());
    if name.symlink_metadata().is_ok() {
        fs::remove_file(name).context(why)?;
    }
    std::os::unix::fs::symlink(library, name).context(why)
}

/// Functions of the C library that ours stand before; in the archive they are called `uroce_...`.
const INTERPOSED: &[&str] = &[
    "open",
    "open64",
    "__open_2",
    "__open64_2",
    "openat",
    "openat64",
    "__openat_2",
    "__openat64_2",
    "fopen",
    "fopen64",
    "opendir",
    "scandir",
    "scandir64",
    "chdir",
    "access",
    "faccessat",
    "stat",
    "stat64",
    "lstat",
    "lstat64",
    "fstatat",
    "fstatat64",
    "statx",
    "readlink",
    "readlinkat",
    "realpath",
    "__realpath_chk",
];

/// Functions of the dynamic linker that ours stand before in the library that is loaded before others: a program that
/// opens the system's library by its name gets that one.
const LOADING: &[&str] = &["dlopen", "dlvsym"];

/// A linker script with the names of another and of `interposed`, but without its versions: a function that stands before
/// one of the C library must have none, and a library has them for all names or for none.
fn without_versions(script: &str, interposed: &[&str]) -> String {
    let is_name = |line: &&str| line.ends_with(';') && !line.starts_with(['}', '*']);
    let mut names: Vec<&str> = script.lines().map(str::trim).filter(is_name).collect();
    let interposed: Vec<String> = interposed.iter().map(|name| format!("{name};")).collect();
    names.extend(interposed.iter().map(String::as_str));
    format!("{{\n    global:\n{}\n    local:\n*;\n}};\n", names.join("\n"))
}

/// Makes a shared library of the archive, with the file's name as its own name, what the script says
/// as its symbols, and our functions under the names they stand before.
fn link(archive: &Path, library: &Path, script: &Path, interposed: &[&str]) -> Result<()> {
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    let mut linker = command(["cc", "-shared", "-o"]);
    linker.arg(library).arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive");
    linker.arg("-Wl,--gc-sections,-z,now,-z,defs,--strip-debug");
    linker.arg(format!("-Wl,--version-script={}", script.display()));
    linker.arg(format!("-Wl,-soname,{name}")).arg("-Wl,--wrap=socket");
    linker.args(interposed.iter().map(|name| format!("-Wl,--defsym={name}=uroce_{name}")));
    run_command(linker.args(["-lpthread", "-ldl", "-lm"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_makes_no_completions() {
        let error = completions_of(Path::new("false"), "bash").expect_err("it fails");
        assert!(error.to_string().contains("false completions bash"), "{error}");
    }

    #[test]
    fn versions_go_and_names_stay() {
        let script = "A_1 {\n  global:\n    ibv_x;\n  local:\n    *;\n};\nA_2 {\n  global:\n    ibv_y;\n} A_1;\n";
        let plain = without_versions(script, INTERPOSED);
        assert!(plain.starts_with("{\n    global:\nibv_x;\nibv_y;\nopen;\n"), "{plain}");
        assert!(plain.ends_with("local:\n*;\n};\n"), "{plain}");
    }
}
