//! `uroce run -- PROGRAM`: an unmodified program of libibverbs on our devices.

use crate::cli::Global;
use crate::failure::Failure;
use crate::nic;
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What takes the place of the system's library, loaded before it.
const PRELOADED: &str = "liburoce_ibverbs.so";
/// The folder with the library that has the system's name.
const DROP_IN: &str = "drop-in";

/// Options of `uroce run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Instead of loading our library before the system's, put it in its place: for programs that
    /// load libibverbs.so.1 themselves, and for machines without one
    #[arg(long)]
    drop_in: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Becomes the program; returns only if that fails.
///
/// # Errors
/// Exit 3: no such program, device or library.
pub fn run(args: &RunArgs, global: &Global) -> Result<(), Failure> {
    let (program, words) = args.program.split_first().expect("clap asks for one");
    let mut command = Command::new(program);
    command.args(words);
    let (variable, entry) = library(args.drop_in)?;
    command.env(variable, joined(&entry, std::env::var_os(variable)));
    for (name, value) in settings(global)? {
        command.env(name, value);
    }
    let error = command.exec();
    let program = program.display();
    Err(Failure::environment(format!("cannot start {program}: {error}"))
        .help("give the program's name as on the command line, after `--`"))
}

/// What tells the library about the command line.
fn settings(global: &Global) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let mut set: Vec<(&'static str, OsString)> =
        vec![("UROCE_ROCE_PORT", global.roce_port.to_string().into())];
    if let Some(address) = global.address {
        set.push(("UROCE_DEVICE", address.to_string().into()));
    } else if let Some(name) = &global.ib_dev {
        let is_address = name.parse::<std::net::IpAddr>().is_ok();
        let name = if is_address { name.clone() } else { nic::find(name)?.name };
        set.push(("UROCE_DEVICE", name.into()));
    }
    if let Some(datapath) = &global.datapath {
        global.datapath_to_peers()?;
        set.push(("UROCE_DATAPATH", datapath.name().into()));
    }
    if let Some(engines) = global.engines {
        set.push(("UROCE_ENGINES", engines.to_string().into()));
    }
    if let Some(path) = &global.pcap {
        let path = std::path::absolute(path).map_err(Failure::environment)?;
        set.push(("UROCE_PCAP", path.into()));
    }
    if let Some(log) = &global.log {
        set.push(("UROCE_LOG", log.into()));
    }
    Ok(set)
}

/// The variable of the dynamic linker, and what to put first into it.
fn library(drop_in: bool) -> Result<(&'static str, PathBuf), Failure> {
    let program = std::env::current_exe().map_err(Failure::environment)?;
    let folders = folders(&program);
    let (variable, file, entry): (_, _, fn(&Path) -> PathBuf) = if drop_in {
        ("LD_LIBRARY_PATH", "drop-in/libibverbs.so.1", |folder| folder.join(DROP_IN))
    } else {
        ("LD_PRELOAD", PRELOADED, |folder| folder.join(PRELOADED))
    };
    match folders.iter().find(|folder| folder.join(file).is_file()) {
        Some(folder) => Ok((variable, entry(folder))),
        None => Err(Failure::environment(format!(
            "the library {file} is in none of {}",
            folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", ")
        ))
        .help("`cargo xtask dist` builds it next to this program; UROCE_LIBRARIES names another folder")),
    }
}

/// Where the libraries may be: where the user says, as `cargo xtask dist` lays them out, as a
/// package installs them.
fn folders(program: &Path) -> Vec<PathBuf> {
    let named = std::env::var_os("UROCE_LIBRARIES").map(PathBuf::from);
    let beside = program.parent().and_then(Path::parent).map(|top| top.join("lib/uroce"));
    let system = ["/usr/local/lib/uroce", "/usr/lib/uroce"].map(PathBuf::from);
    let mut folders: Vec<PathBuf> = named.into_iter().chain(beside).collect();
    for folder in system {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// `entry` before what the variable holds already.
fn joined(entry: &Path, rest: Option<OsString>) -> OsString {
    let mut value = entry.as_os_str().to_owned();
    if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
        value.push(OsStr::new(":"));
        value.push(rest);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_library_comes_first() {
        let ours = Path::new("/lib/ours.so");
        assert_eq!(joined(ours, None), "/lib/ours.so");
        assert_eq!(joined(ours, Some("".into())), "/lib/ours.so");
        assert_eq!(joined(ours, Some("/lib/other.so".into())), "/lib/ours.so:/lib/other.so");
    }

    #[test]
    fn a_program_in_usr_bin_looks_into_usr_lib_once() {
        let folders = folders(Path::new("/usr/bin/uroce"));
        let usr: Vec<_> = folders.iter().filter(|f| f.as_path() == "/usr/lib/uroce").collect();
        assert_eq!(usr.len(), 1);
    }
}
