//! The program `uroce` and both forms of libibverbs and librdmacm, laid out as a package installs them.
//!
//! The libraries are linked here and not by cargo: rustc gives each shared library of its own a version
//! script, next to which one of ours, with the symbol versions of rdma-core, has no effect.

mod linker;

use std::fs;
use std::path::Path;

pub use linker::{Linker, OLDEST_GLIBC};

use crate::error::{Context, Result};
use crate::process::{command, run as run_command};
use crate::workspace;

/// Versions of the symbols, as in rdma-core.
const VERSIONS: &str = "crates/cabi/libibverbs.map";
/// Names of librdmacm.
const CONNECTIONS: &str = "crates/cabi/librdmacm.map";

/// Builds with optimisation and puts everything into `out`.
///
/// # Errors
/// It does not compile, or there is nothing to link with.
pub fn optimised(out: &Path, linker: Linker) -> Result<()> {
    let built = linker.build(&["uroce", "uroce-cabi"])?;
    lay_out(&built, out, linker)
}

/// The same with the profile of CI and with features (`PACKAGE/FEATURE`), for tests.
///
/// # Errors
/// It does not compile, or there is no C compiler to link with.
pub fn for_tests(out: &Path, features: &[&str]) -> Result<()> {
    workspace::build_all_with(features)?;
    lay_out(&workspace::build_folder(), out, Linker::OfThisSystem)
}

fn lay_out(built: &Path, out: &Path, linker: Linker) -> Result<()> {
    let (bin, lib) = (out.join("bin"), out.join("lib/uroce"));
    for folder in [&bin, &lib.join("drop-in")] {
        fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))?;
    }
    fs::copy(built.join("uroce"), bin.join("uroce")).context(|| "could not copy uroce")?;
    let archive = built.join("liburoce_cabi.a");
    let read = |map: &str| {
        fs::read_to_string(workspace::root().join(map)).context(|| format!("could not read {map}"))
    };
    let names = read(VERSIONS)? + &read(CONNECTIONS)? + &mark_script();
    let linked = |library: &str, names: &str, more: &str, interposed: &[&str]| {
        let (script, source) = (lib.join("names.map"), lib.join("more.s"));
        fs::write(&script, names).context(|| "could not write a linker script")?;
        fs::write(&source, more).context(|| "could not write second versions of names")?;
        link(&archive, &lib.join(library), (&script, &source), interposed, linker)?;
        [script, source]
            .iter()
            .try_for_each(fs::remove_file)
            .context(|| "could not remove a script")
    };
    let (mark, plain) = (mark_symbol(), second_versions("") + &mark_symbol());
    linked("drop-in/libibverbs.so.1", &names, &(second_versions(&names) + &mark), &[])?;
    let paths = without_versions(&mark_script(), INTERPOSED);
    linked("drop-in/liburoce_paths.so", &paths, &plain, INTERPOSED)?;
    let all = [INTERPOSED, LOADING].concat();
    linked("liburoce_ibverbs.so", &without_versions(&names, &all), &plain, &all)?;
    same_library("libibverbs.so.1", &lib.join("drop-in/librdmacm.so.1"))
}

/// The private names of rdma-core 44 to 56, and what the same names have as their version in rdma-core 65. A linker script gives
/// a name one version, so the second is that of a symbol which leads to the first.
const PRIVATE: (&str, &str) = ("IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_65");
/// The one of them that is a variable: it is false.
const VARIABLE: &str = "verbs_allow_disassociate_destroy";
/// A jump to another function.
const JUMP: &str = if cfg!(target_arch = "aarch64") { "b" } else { "jmp" };

/// In assembly language.
fn second_versions(script: &str) -> String {
    let (first, second) = PRIVATE;
    let inside = script.lines().skip_while(|line| !line.starts_with(first)).skip(1);
    let names = inside.take_while(|line| !line.starts_with('}')).map(str::trim);
    let names =
        names.filter_map(|line| line.strip_suffix(';')).filter(|name| !name.ends_with("_34"));
    let symbol = |name: &str| {
        let alias = format!("uroce_second_{name}");
        let (section, kind, value) = match name {
            VARIABLE => (".data", "object", ".quad 0".to_owned()),
            _ => (".text", "function", format!("{JUMP} {name}")),
        };
        format!(
            "{section}\n.globl {alias}\n.type {alias}, %{kind}\n{alias}: {value}\n.size {alias}, .-{alias}\n\
             .symver {alias}, {name}@{second}\n"
        )
    };
    let symbols: String = names.map(symbol).collect();
    format!("{symbols}.section .note.GNU-stack,\"\",%progbits\n")
}

/// The name by which `uroce run` knows a library of ours, and that it is of the same version.
fn mark() -> String {
    format!("uroce_version_{}", env!("CARGO_PKG_VERSION").replace(['.', '-', '+'], "_"))
}

/// It has a version of its own, as every name has in a library with versions.
fn mark_script() -> String {
    format!("UROCE {{\n    global:\n        {};\n}};\n", mark())
}

/// In assembly language.
fn mark_symbol() -> String {
    let mark = mark();
    format!(
        ".section .data\n.globl {mark}\n.type {mark}, %object\n{mark}: .quad 0\n.size {mark}, .-{mark}\n"
    )
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
    "socket",
    "sendto",
    "sendmsg",
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
fn link(
    archive: &Path,
    library: &Path,
    (script, source): (&Path, &Path),
    interposed: &[&str],
    linker: Linker,
) -> Result<()> {
    let name = library.file_name().unwrap_or_default().to_string_lossy();
    let renamed = library.with_extension("a");
    rename(archive, &renamed, interposed)?;
    let mut words = linker.command();
    words.args(["-shared", "-o"]).arg(library).arg(source);
    words.arg("-Wl,--whole-archive").arg(&renamed).arg("-Wl,--no-whole-archive");
    words.arg("-Wl,--gc-sections,-z,now,-z,defs,--strip-debug");
    words.arg(format!("-Wl,--version-script={}", script.display()));
    words.arg(format!("-Wl,-soname,{name}")).arg("-Wl,--wrap=socket");
    run_command(words.args(["-lgcc_s", "-lpthread", "-ldl", "-lm"]))?;
    fs::remove_file(&renamed).context(|| format!("could not remove {}", renamed.display()))
}

/// Copies the archive with `uroce_NAME` as `NAME`, for each name of `interposed`: not every linker can do that itself.
fn rename(archive: &Path, renamed: &Path, interposed: &[&str]) -> Result<()> {
    let mut objcopy = command(["objcopy"]);
    objcopy.args(interposed.iter().map(|name| format!("--redefine-sym=uroce_{name}={name}")));
    run_command(objcopy.arg(archive).arg(renamed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_names_have_two_versions_but_the_one_with_a_number() {
        let script = "IBVERBS_PRIVATE_34 {\n    global:\n        a;\n        driver_34;\n} X;\nOTHER {\n        b;\n};\n";
        let more = second_versions(script);
        assert!(more.contains(".symver uroce_second_a, a@IBVERBS_PRIVATE_65\n"), "{more}");
        assert!(!more.contains("driver") && !more.contains("second_b"), "{more}");
    }

    #[test]
    fn versions_go_and_names_stay() {
        let script = "A_1 {\n  global:\n    ibv_x;\n  local:\n    *;\n};\nA_2 {\n  global:\n    ibv_y;\n} A_1;\n";
        let plain = without_versions(script, INTERPOSED);
        assert!(plain.starts_with("{\n    global:\nibv_x;\nibv_y;\nopen;\n"), "{plain}");
        assert!(plain.ends_with("local:\n*;\n};\n"), "{plain}");
    }
}
