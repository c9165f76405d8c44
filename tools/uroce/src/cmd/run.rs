//! `uroce run -- PROGRAM`: an unmodified program of libibverbs on our devices.

mod cannot_start;
mod libraries;
mod plain_path;
mod program;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use program::ProgramKind;
use uroce_verbs::PcapFile;

use crate::failure::Failure;
use crate::global::Global;
use crate::nic;

/// What takes the place of the system's library, loaded before it.
const PRELOADED: &str = "liburoce_ibverbs.so";
/// The folder with the library that has the system's name.
const DROP_IN: &str = "drop-in";
/// That library.
const NAMED_AS_THEIRS: &str = "drop-in/libibverbs.so.1";
/// What stands before the C library's functions of files then: programs that load libibverbs themselves look for devices
/// in /sys and /dev as well.
const PATHS: &str = "drop-in/liburoce_paths.so";

/// What gives a program a capability and leaves its environment alone.
const CAPABILITIES: &str = "\
Datapaths other than udp need capabilities: run it all as root, or give them to all that is started:

  sudo setpriv --reuid=$USER --regid=$(id -g) --init-groups \\
    --inh-caps=+net_raw --ambient-caps=+net_raw \\
    uroce run --datapath packet -- PROGRAM

For xdp they are +net_admin,+net_raw,+bpf. `setcap` on PROGRAM would end the loading of our library into it, and on \
uroce it does not reach PROGRAM.

Examples:
  uroce run -- ibv_devinfo
  uroce run --device 10.0.0.2 -- ib_write_bw -F 10.0.0.1";

/// Options of `uroce run`.
#[derive(Debug, Args)]
#[command(after_help = CAPABILITIES)]
pub struct RunArgs {
    /// Instead of loading our library before the system's, put it in its place: for machines without one
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
    refuse_json(global)?;
    let path = program::find(program);
    let kind = path.as_deref().map(kind_of);
    refuse(program, path.as_deref(), kind)?;
    let set = libraries(args.drop_in)?;
    if let (Some(path), Some(ProgramKind::Linked)) = (&path, kind) {
        libraries::check(path, &ours(args.drop_in)?, args.drop_in)?;
    }
    if clears_environment(program, words) {
        eprintln!(
            "note: `env -i` takes away what `uroce run` tells the program: write `env -i uroce run -- PROGRAM`"
        );
    }
    let mut command = Command::new(program);
    command.args(words);
    for (variable, entry) in set {
        command.env(variable, joined(&entry, std::env::var_os(variable)));
    }
    for (name, value) in settings(global)? {
        command.env(name, value);
    }
    let error = command.exec();
    Err(cannot_start::why(program, path.as_deref(), &error))
}

/// `uroce run -- uroce run`: we name the library all over, and load nothing.
fn kind_of(path: &Path) -> ProgramKind {
    let own = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    if own.is_some() && own == path.canonicalize().ok() {
        ProgramKind::Linked
    } else {
        program::kind(path)
    }
}

fn refuse_json(global: &Global) -> Result<(), Failure> {
    match global.json {
        true => {
            Err(Failure::usage("--json has no meaning here: the program prints what it prints")
                .help("leave it out, or write it behind `--` if it is the program's"))
        }
        false => Ok(()),
    }
}

/// Programs that would run without our library, and silently so. One that only starts others may be linked as it likes,
/// but the environment of a privileged one ends with it.
fn refuse(name: &OsStr, path: Option<&Path>, kind: Option<ProgramKind>) -> Result<(), Failure> {
    let note =
        |why| eprintln!("note: {name:?} {why}; a program that it starts may be another matter");
    match kind {
        None => Err(Failure::environment(format!("there is no program {name:?}"))
            .help("check its name, and PATH; `uroce run -- ibv_devinfo` runs one of ibverbs-utils")),
        Some(ProgramKind::Privileged) => Err(Failure::environment(format!(
            "{name:?} is setuid or setgid or has capabilities of its own: the dynamic linker takes no library from \
             whoever starts it"
        ))
        .help(
            "run a copy without them (`cp` leaves them behind), or as root; what gives a capability for a datapath to it \
             is in `uroce run --help`",
        )),
        Some(ProgramKind::Static) => {
            note(
                "is linked statically: nothing takes the place of a libibverbs inside it (build it with shared libraries), \
                 and it sees the kernel's /sys; `uroce devinfo` and `uroce stat --json` tell what is there",
            );
            Ok(())
        }
        Some(ProgramKind::OwnSystemCalls) => {
            note(
                "is a program of Go, which makes system calls itself: it sees the kernel's /sys, without our devices; \
                 `uroce stat --prometheus` and `--json` have their counters for it",
            );
            Ok(())
        }
        Some(ProgramKind::Foreign) => match path.and_then(program::not_runnable) {
            Some(machine) => Err(cannot_start::foreign(name, &machine)),
            None => {
                note("is of another architecture or word size than our library, which it cannot load; use a uroce built for it");
                Ok(())
            }
        },
        Some(ProgramKind::Linked) => Ok(()),
    }
}

/// `env -i PROGRAM`.
fn clears_environment(program: &OsStr, words: &[OsString]) -> bool {
    let clears =
        |word: &OsString| ["-", "-i", "--ignore-environment"].iter().any(|flag| word == flag);
    let is_flag = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
    Path::new(program).file_name() == Some(OsStr::new("env"))
        && words.iter().take_while(is_flag).any(clears)
}

/// What tells the library about the command line.
fn settings(global: &Global) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let mut set: Vec<(&'static str, OsString)> =
        vec![("UROCE_ROCE_PORT", global.roce_port().to_string().into())];
    if let Some(address) = global.address {
        nic::check_local(address)?;
        set.push(("UROCE_DEVICE", address.to_string().into()));
    } else if let Some(name) = &global.ib_dev {
        let address = name.parse::<std::net::IpAddr>().ok();
        address.map_or(Ok(()), nic::check_local)?;
        let name = if address.is_some() { name.clone() } else { nic::find(name)?.name };
        set.push(("UROCE_DEVICE", name.into()));
    }
    if let Some(faults) = &global.faults {
        crate::faults::tell_seed(faults);
        set.push(("UROCE_FAULT", faults.plan().to_string().into()));
        set.push(("UROCE_FAULT_SEED", faults.seed().to_string().into()));
    }
    if let Some(datapath) = &global.datapath {
        global.datapath_to_peers()?;
        set.push(("UROCE_DATAPATH", datapath.name().into()));
    }
    if let Some(engines) = global.engines {
        set.push(("UROCE_ENGINES", engines.to_string().into()));
    }
    if global.no_split_writes {
        set.push(("UROCE_SPLIT_WRITES", "0".into()));
    }
    if let Some(path) = &global.pcap {
        let path = std::path::absolute(path).map_err(Failure::environment)?;
        if !path.to_string_lossy().contains("%p") {
            PcapFile::make_room(&path).map_err(Failure::environment)?;
        }
        set.push(("UROCE_PCAP", path.into()));
    }
    if let Some(log) = &global.log {
        set.push(("UROCE_LOG", log.into()));
    }
    Ok(set)
}

/// The library with our functions.
fn ours(drop_in: bool) -> Result<PathBuf, Failure> {
    find(&folders()?, if drop_in { NAMED_AS_THEIRS } else { PRELOADED })
}

/// The variables of the dynamic linker, and what to put first into each.
fn libraries(drop_in: bool) -> Result<Vec<(&'static str, PathBuf)>, Failure> {
    let (folders, library) = (folders()?, ours(drop_in)?);
    if drop_in {
        let folder = library.parent().map_or_else(|| PathBuf::from(DROP_IN), Path::to_owned);
        let paths = find(&folders, PATHS)?;
        [&library, &paths].into_iter().try_for_each(|file| libraries::is_ours(file))?;
        libraries::is_whole(&folder)?;
        return Ok(vec![("LD_LIBRARY_PATH", folder), ("LD_PRELOAD", paths)]);
    }
    libraries::is_ours(&library)?;
    Ok(vec![("LD_PRELOAD", library)])
}

/// The file in the first folder that has it, by a name that the dynamic linker understands.
fn find(folders: &[PathBuf], file: &str) -> Result<PathBuf, Failure> {
    if let Some(folder) = folders.iter().find(|folder| folder.join(file).is_file()) {
        return Ok(plain_path::of(folder)?.join(file));
    }
    let all: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    Err(Failure::environment(format!("the library {file} is in none of {}", all.join(", "))).help(
        "a package of uroce installs it, and `cargo xtask dist` builds it from the sources; UROCE_LIBRARIES names another folder",
    ))
}

/// Where the libraries may be: where the user says and nowhere else, as `cargo xtask dist` lays them out, as a
/// package installs them.
fn folders() -> Result<Vec<PathBuf>, Failure> {
    let program = std::env::current_exe().map_err(Failure::environment)?;
    let named = std::env::var_os("UROCE_LIBRARIES").filter(|named| !named.is_empty());
    // The program may change its working directory before it loads a library.
    let named = named.map(std::path::absolute).transpose().map_err(Failure::environment)?;
    Ok(folders_of(named, &program))
}

/// The same for what the user says, and this program.
fn folders_of(named: Option<PathBuf>, program: &Path) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named];
    }
    let beside = program.parent().and_then(Path::parent).map(|top| top.join("lib/uroce"));
    let system = ["/usr/local/lib/uroce", "/usr/lib/uroce"].map(PathBuf::from);
    let mut folders: Vec<PathBuf> = beside.into_iter().collect();
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
    fn v128_an_emptied_environment_is_noticed() {
        let clears = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            clears_environment(&words[0], &words[1..])
        };
        assert!(clears(&["env", "-i", "ibv_devices"]) && clears(&["/usr/bin/env", "-u", "-", "x"]));
        assert!(!clears(&["env", "A=1", "prog", "-i"]) && !clears(&["ib_write_bw", "-i", "1"]));
    }

    #[test]
    fn our_library_comes_first() {
        let ours = Path::new("/lib/ours.so");
        assert_eq!(joined(ours, None), "/lib/ours.so");
        assert_eq!(joined(ours, Some("".into())), "/lib/ours.so");
        assert_eq!(joined(ours, Some("/lib/other.so".into())), "/lib/ours.so:/lib/other.so");
    }

    #[test]
    fn a_program_in_usr_bin_looks_into_usr_lib_once() {
        let folders = folders_of(None, Path::new("/usr/bin/uroce"));
        let usr: Vec<_> = folders.iter().filter(|f| f.as_path() == "/usr/lib/uroce").collect();
        assert_eq!(usr.len(), 1);
    }

    #[test]
    fn a_folder_that_the_user_names_is_the_only_one() {
        let named = PathBuf::from("/opt/mine");
        assert_eq!(folders_of(Some(named.clone()), Path::new("/usr/bin/uroce")), [named]);
    }
}
