//! Whether the dynamic linker will load our library into a program. What it leaves out, it leaves out silently, and the
//! program then finds no device.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

/// Bytes of a program that are looked at: its program headers are at the start.
const LOOKED_AT: u64 = 64 << 10;
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;

/// What a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// The dynamic linker loads what it is told to.
    Linked,
    /// It has no dynamic linker.
    Static,
    /// It is made by the Go compiler, whose library makes system calls itself.
    OwnSystemCalls,
    /// It is of another processor, or has words of another size.
    Foreign,
    /// It runs with more rights than who starts it, and so without what that one says.
    Privileged,
}

/// The file that the system will run as `name`; `None` if there is none.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    let path = Path::new(name);
    if name.is_empty() || name.as_encoded_bytes().contains(&b'/') {
        return Some(path.to_owned()).filter(|path| path.is_file());
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
}

/// What the file is. One that cannot be read is taken for an ordinary one: the system will say what is wrong.
pub fn kind(path: &Path) -> ProgramKind {
    if gains_rights(path) {
        return ProgramKind::Privileged;
    }
    let read = |from: u64, most: u64| {
        let mut bytes = Vec::new();
        let mut file = File::open(path).ok()?;
        file.seek(SeekFrom::Start(from)).ok()?;
        file.take(most).read_to_end(&mut bytes).ok().map(|_| bytes)
    };
    let Some(head) = read(0, LOOKED_AT) else { return ProgramKind::Linked };
    match kind_of(&head) {
        ProgramKind::Linked if is_go(&head, read) => ProgramKind::OwnSystemCalls,
        kind => kind,
    }
}

/// What the Go linker puts at the start of the data that can be written.
const GO_BUILD: &[u8] = b"\xff Go buildinf:";
/// Bytes of that data in which it is looked for.
const GO_LOOKED_AT: u64 = 64 << 10;

/// Whether the program has what every program of Go has; `read` gives bytes of its file.
fn is_go(head: &[u8], read: impl Fn(u64, u64) -> Option<Vec<u8>>) -> bool {
    let is_data = |kind: u64, flags: u64| kind == LOADED && flags & WRITABLE != 0;
    let Some(segments) = segments(head) else { return false };
    let data = segments.into_iter().find(|(kind, flags, _)| is_data(*kind, *flags));
    let bytes = data.and_then(|(_, _, at)| read(at, GO_LOOKED_AT)).unwrap_or_default();
    bytes.windows(GO_BUILD.len()).any(|window| window == GO_BUILD)
}

/// As the kernel decides it: root gains nothing from its own file.
fn gains_rights(path: &Path) -> bool {
    let Ok(found) = path.metadata() else { return false };
    let user = geteuid();
    let by_mode = (found.mode() & SETUID != 0 && found.uid() != user.as_raw())
        || (found.mode() & SETGID != 0 && found.gid() != getegid().as_raw());
    let mut unused = [0_u8; 64];
    let capabilities = rustix::fs::getxattr(path, c"security.capability", &mut unused);
    by_mode || (!user.is_root() && capabilities.is_ok())
}

/// An ELF file by its header and its program headers; anything else (a script) is run by a program that is not
/// looked at.
fn kind_of(bytes: &[u8]) -> ProgramKind {
    if !bytes.starts_with(b"\x7fELF") {
        return ProgramKind::Linked;
    }
    let own = File::open("/proc/self/exe").and_then(|mut file| {
        let mut header = [0; 20];
        file.read_exact(&mut header).map(|()| header)
    });
    // Class, byte order and machine.
    if own.is_ok_and(|own| {
        bytes.get(4..6) != Some(&own[4..6]) || bytes.get(18..20) != Some(&own[18..20])
    }) {
        return ProgramKind::Foreign;
    }
    match is_interpreted(bytes) {
        Some(false) => ProgramKind::Static,
        _ => ProgramKind::Linked,
    }
}

/// What an ELF file of another machine than this program's is for; `None` for one of this machine and for any other file.
pub fn foreign_machine(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(LOOKED_AT).read_to_end(&mut bytes).ok()?;
    (kind_of(&bytes) == ProgramKind::Foreign).then(|| machine(&bytes))
}

/// The same for a program that this kernel cannot run either: not one of the 32-bit mode of its processors, nor one for which
/// an emulator is registered.
pub fn not_runnable(path: &Path) -> Option<String> {
    const HANDLERS: &str = "/proc/sys/fs/binfmt_misc";
    let entries = std::fs::read_dir(HANDLERS).into_iter().flatten().flatten();
    let is_handler = |name: &OsStr| name != OsStr::new("register") && name != OsStr::new("status");
    if entries.into_iter().any(|entry| is_handler(&entry.file_name())) {
        return None;
    }
    foreign_machine(path).filter(|machine| !RUNS_HERE.contains(&machine.as_str()))
}

/// Other programs that a 64-bit kernel runs.
const RUNS_HERE: [&str; 2] = match cfg!(target_arch = "aarch64") {
    true => ["32-bit ARM", "32-bit ARM"],
    false => ["32-bit x86", "x32"],
};

/// In words; the numbers are those of the ELF specification.
fn machine(bytes: &[u8]) -> String {
    let little = bytes.get(5) != Some(&2);
    let number = bytes.get(18..20).map_or(0, |field| {
        let pair = [field[0], field[1]];
        if little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) }
    });
    let name = match number {
        3 => "32-bit x86",
        8 => "MIPS",
        20 => "32-bit PowerPC",
        21 => "64-bit PowerPC",
        22 => "s390x",
        40 => "32-bit ARM",
        62 if bytes.get(4) == Some(&1) => "x32",
        62 => "x86_64",
        183 => "aarch64",
        243 => "RISC-V",
        258 => "LoongArch",
        number => return format!("another machine (ELF machine {number})"),
    };
    name.to_owned()
}

const LOADED: u64 = 1;
const INTERPRETER: u64 = 3;
const WRITABLE: u64 = 2;

/// The dynamic linker that a 64-bit ELF file names; `None` for any other file, and for one of another architecture.
pub fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(LOOKED_AT).read_to_end(&mut bytes).ok()?;
    if !bytes.starts_with(b"\x7fELF") || kind_of(&bytes) != ProgramKind::Linked {
        return None;
    }
    let (_, _, from) = segments(&bytes)?.into_iter().find(|(kind, _, _)| *kind == INTERPRETER)?;
    let text = bytes.get(usize::try_from(from).ok()?..)?.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(text)))
}

/// Whether a 64-bit ELF file has a dynamic linker. `None` for one that is not as it should be, and for 32 bits.
fn is_interpreted(bytes: &[u8]) -> Option<bool> {
    Some(segments(bytes)?.into_iter().any(|(kind, _, _)| kind == INTERPRETER))
}

/// Kind, flags and place in the file of each segment of a 64-bit ELF file.
fn segments(bytes: &[u8]) -> Option<Vec<(u64, u64, u64)>> {
    if bytes.get(4) != Some(&2) {
        return None;
    }
    let (table, size, count) = (word(bytes, 32, 8)?, word(bytes, 54, 2)?, word(bytes, 56, 2)?);
    (0..count)
        .map(|i| {
            let at = table.checked_add(i.checked_mul(size)?)?;
            let field = |offset: u64, length| word(bytes, at.checked_add(offset)?, length);
            Some((field(0, 4)?, field(4, 4)?, field(8, 8)?))
        })
        .collect()
}

/// A number of `length` bytes, little endian.
fn word(bytes: &[u8], at: u64, length: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let field = bytes.get(at..at.checked_add(length)?)?;
    Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v128_a_program_is_known_by_its_headers() {
        let own = std::fs::read("/proc/self/exe").expect("this test");
        assert_eq!(is_interpreted(&own), Some(true));
        assert_eq!(kind_of(b"#!/bin/sh\n"), ProgramKind::Linked);
        let mut without = own.clone();
        let table = word(&own, 32, 8).expect("a header");
        for i in 0..word(&own, 56, 2).expect("a header") {
            let at = (table + i * word(&own, 54, 2).expect("a header")) as usize;
            if word(&own, at as u64, 4) == Some(INTERPRETER) {
                without[at] = 4;
            }
        }
        assert_eq!(kind_of(&without), ProgramKind::Static);
        let mut other = own.clone();
        other[18] ^= 0xff;
        assert_eq!(kind_of(&other), ProgramKind::Foreign);
    }

    #[test]
    fn v151_a_program_of_go_is_known_by_what_its_linker_writes() {
        let own = std::fs::read("/proc/self/exe").expect("this test");
        assert!(!is_go(&own, |_, _| Some(vec![0; 4096])));
        let go = |_, _| Some([&[0; 32], GO_BUILD, &[8, 2]].concat());
        assert!(is_go(&own, go));
        assert!(!is_go(&own, |_, _| None) && !is_go(b"#!/bin/sh", go));
    }

    #[test]
    fn v128_a_program_that_is_cut_or_garbled_is_looked_at_without_harm() {
        let own = std::fs::read("/proc/self/exe").expect("this test");
        let head = &own[..own.len().min(4096)];
        for end in 0..head.len().min(600) {
            kind_of(&head[..end]);
        }
        for at in 0..64 {
            let mut garbled = head.to_vec();
            garbled[at..at + 8].fill(0xff);
            kind_of(&garbled);
        }
    }

    #[test]
    fn v128_programs_are_found_as_the_system_finds_them() {
        assert!(find(OsStr::new("sh")).is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find(OsStr::new("no-such-program-here")), None);
        assert_eq!(find(OsStr::new("")), None);
        assert_eq!(find(OsStr::new("/bin/sh")), Some(PathBuf::from("/bin/sh")));
    }
}
