//! What a program needs of libraries, asked before it runs: a library that is not there, and names of libibverbs and librdmacm
//! that ours has not.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use uroce_host::{symbols, verbs_names};

use crate::failure::Failure;

/// How the name begins that each library of ours has for its version (`tools/testbed/src/install.rs`).
const MARK: &str = "uroce_version_";
/// The libraries that ours stands for.
const OURS: [&str; 2] = ["libibverbs.so.1", "librdmacm.so.1"];

/// Refuses a program that would end with a signal, or that cannot be loaded.
///
/// # Errors
/// Exit 3: names that `library` has not, or a library that is not installed.
pub fn check(program: &Path, library: &Path, drop_in: bool) -> Result<(), Failure> {
    let listed = listed(program);
    let missing: Vec<&str> =
        listed.iter().filter(|one| one.path.is_none()).map(|one| one.name.as_str()).collect();
    let is_ours = |name: &&str| OURS.contains(name);
    if let Some(name) = missing.iter().find(|name| is_ours(name)).filter(|_| !drop_in) {
        return Err(Failure::environment(format!("{} needs {name}, which this system does not have", program.display()))
            .help("`uroce run --drop-in -- PROGRAM` puts ours in its place; or install ibverbs-providers and librdmacm1"));
    }
    if let Some(name) = missing.iter().find(|name| !is_ours(name)) {
        return Err(Failure::environment(format!(
            "{} needs {name}, which is not found",
            program.display()
        ))
        .help("install the package that has it, or name its folder in LD_LIBRARY_PATH"));
    }
    let ours = symbols::exports(library).map_err(Failure::environment)?;
    let others = listed.iter().filter(|one| !OURS.contains(&one.name.as_str()));
    let files = others.filter_map(|one| one.path.as_deref());
    for file in [program].into_iter().chain(files) {
        let names = verbs_names::missing(file, &ours);
        if !names.is_empty() {
            return Err(Failure::environment(verbs_names::sentence(file, &names))
                .help("update uroce, or run a program that was built for an older rdma-core"));
        }
    }
    Ok(())
}

/// The file is a library of ours, for this processor and of this version: the dynamic linker leaves out another one with a line
/// nobody reads, and one of another version takes the variables of this one for something else.
///
/// # Errors
/// Exit 3: what the file is.
pub fn is_ours(library: &Path) -> Result<(), Failure> {
    let wrong = |what: String| Failure::environment(format!("{} {what}", library.display()));
    if let Some(machine) = super::program::foreign_machine(library) {
        let own = std::env::consts::ARCH;
        return Err(wrong(format!("is for {machine}, and this uroce is for {own}"))
            .help(format!("install the package of uroce for {own}")));
    }
    let names =
        symbols::exports(library).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let own = env!("CARGO_PKG_VERSION").replace(['.', '-', '+'], "_");
    match names.iter().find_map(|name| name.strip_prefix(MARK)) {
        Some(version) if version == own => Ok(()),
        Some(version) => Err(wrong(format!(
            "is of uroce {}, and this is uroce {}",
            version.replace('_', "."),
            env!("CARGO_PKG_VERSION")
        ))
        .help("install both from one package; UROCE_LIBRARIES may name a folder of another one")),
        None => Err(wrong("is not a library of ours, or not a whole one".to_owned())
            .help("install uroce again; `cargo xtask dist` builds it, and UROCE_LIBRARIES names another folder")),
    }
}

/// librdmacm in the place of the system's is the same file as libibverbs: of two copies each would have devices of its own.
///
/// # Errors
/// Exit 3: it is another file, or none.
pub fn is_whole(drop_in: &Path) -> Result<(), Failure> {
    let real = |name: &str| drop_in.join(name).canonicalize();
    match (real(OURS[0]), real(OURS[1])) {
        (Ok(verbs), Ok(connections)) if verbs == connections => Ok(()),
        (_, Err(error)) => Err(Failure::environment(format!(
            "{} cannot be used: {error}",
            drop_in.join(OURS[1]).display()
        ))),
        _ => Err(Failure::environment(format!(
            "{} is not the same file as {} beside it, as it is in one package of uroce",
            drop_in.join(OURS[1]).display(),
            OURS[0]
        ))),
    }
    .map_err(|failure| failure.help("install uroce again, with all its libraries from one package"))
}

/// A library that the dynamic linker would load.
#[derive(Debug, PartialEq, Eq)]
struct NeededLibrary {
    name: String,
    /// `None`: there is none.
    path: Option<PathBuf>,
}

/// What the dynamic linker of the C library says it would load, as ldd(1) asks it; nothing for programs that have another one, or
/// none, which would run.
fn listed(program: &Path) -> Vec<NeededLibrary> {
    let Some(linker) = super::program::interpreter(program) else { return Vec::new() };
    let is_known =
        linker.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("ld-linux"));
    if !is_known {
        return Vec::new();
    }
    let asked = Command::new(&linker)
        .arg("--list")
        .arg(program)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).into_owned());
    parse(&text.unwrap_or_default())
}

/// Lines of `NAME => PATH (ADDRESS)` and `NAME => not found`.
fn parse(text: &str) -> Vec<NeededLibrary> {
    let entry = |line: &str| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let path =
            (rest != "not found").then(|| rest.rsplit_once(" (").map_or(rest, |(path, _)| path));
        Some(NeededLibrary { name: name.to_owned(), path: path.map(PathBuf::from) })
    };
    text.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dynamic_linker_lists_is_read() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibx.so.1 => not found\n\tlibc.so.6 => /a b/libc.so.6 (0x2)\n\t/lib64/ld.so (0x3)\n";
        let listed = parse(text);
        let path = |index: usize| listed[index].path.as_deref();
        assert_eq!((listed.len(), path(0), path(1)), (2, None, Some(Path::new("/a b/libc.so.6"))));
    }

    #[test]
    fn a_program_lists_the_c_library_and_a_script_nothing() {
        let own = std::env::current_exe().expect("this test");
        assert!(listed(&own).iter().any(|one| one.name == "libc.so.6" && one.path.is_some()));
        assert!(listed(Path::new("/proc/self/maps")).is_empty());
    }
}
