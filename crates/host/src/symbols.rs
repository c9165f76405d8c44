//! Names that a program or a shared library takes from others, and those that it offers, as its file says.
//!
//! For 64-bit ELF files of little-endian machines; nothing is known of any other file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Most bytes of one table. That of a large C++ program has some ten megabytes.
const MAX_TABLE: u64 = 128 << 20;
/// Most versions that a file needs. A large program needs some hundred.
const MAX_VERSIONS: usize = 10_000;
const DYNAMIC_SYMBOLS: u32 = 11;
const VERSIONS_OF_SYMBOLS: u32 = 0x6fff_ffff;
const VERSIONS_NEEDED: u32 = 0x6fff_fffe;
/// Bytes of a symbol.
const SYMBOL: usize = 24;
const WEAK: u8 = 2;

/// A name that a file takes from another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The library that had it when the file was linked.
    pub library: String,
}

/// The names with versions that the file cannot do without; none for a file of another kind.
///
/// # Errors
/// The file cannot be read.
pub fn imports(path: &Path) -> io::Result<Vec<Import>> {
    Ok(Elf::open(path)?.and_then(|elf| elf.imports()).unwrap_or_default())
}

/// The names that the file offers; none for a file of another kind.
///
/// # Errors
/// The file cannot be read.
pub fn exports(path: &Path) -> io::Result<BTreeSet<String>> {
    Ok(Elf::open(path)?.and_then(|elf| elf.exports()).unwrap_or_default())
}

/// The tables of a file.
struct Elf {
    symbols: Vec<u8>,
    strings: Vec<u8>,
    /// The version of each symbol, by a number.
    versions: Vec<u8>,
    needed: Vec<u8>,
}

/// A section of the file.
struct Section {
    kind: u32,
    at: u64,
    length: u64,
    link: usize,
}

impl Elf {
    /// `None`: another kind of file, or one whose tables are not where they should be.
    fn open(path: &Path) -> io::Result<Option<Elf>> {
        let file = File::open(path)?;
        let mut header = [0; 64];
        if file.read_exact_at(&mut header, 0).is_err() || !header.starts_with(b"\x7fELF\x02\x01") {
            return Ok(None);
        }
        Ok(Elf::read(&file, &header))
    }

    fn read(file: &File, header: &[u8]) -> Option<Elf> {
        let (at, size, count) = (word(header, 40, 8)?, word(header, 58, 2)?, word(header, 60, 2)?);
        let headers = table(file, at, size.checked_mul(count)?)?;
        let sections: Vec<Section> = headers
            .chunks_exact(usize::try_from(size).ok().filter(|size| *size > 0)?)
            .map_while(section)
            .collect();
        let of_kind = |kind: u32| sections.iter().find(|section| section.kind == kind);
        let content = |section: &Section| table(file, section.at, section.length);
        let symbols = of_kind(DYNAMIC_SYMBOLS)?;
        Some(Elf {
            symbols: content(symbols)?,
            strings: content(sections.get(symbols.link)?)?,
            versions: of_kind(VERSIONS_OF_SYMBOLS).and_then(content).unwrap_or_default(),
            needed: of_kind(VERSIONS_NEEDED).and_then(content).unwrap_or_default(),
        })
    }

    fn imports(&self) -> Option<Vec<Import>> {
        let needed = self.needed_versions();
        let mut all = Vec::new();
        for (index, symbol) in self.symbols.chunks_exact(SYMBOL).enumerate() {
            let is_weak = symbol[4] >> 4 == WEAK;
            let Some(version) = word(&self.versions, index as u64 * 2, 2) else { continue };
            let found = needed.iter().find(|(number, ..)| u64::from(*number) == version & 0x7fff);
            if let (true, false, Some((_, version, library))) =
                (is_undefined(symbol), is_weak, found)
            {
                let (version, library) = (version.clone(), library.clone());
                all.push(Import { name: self.string(word(symbol, 0, 4)?)?, version, library });
            }
        }
        Some(all)
    }

    fn exports(&self) -> Option<BTreeSet<String>> {
        let defined = self.symbols.chunks_exact(SYMBOL).filter(|symbol| !is_undefined(symbol));
        let mut names = BTreeSet::new();
        for symbol in defined {
            names.insert(self.string(word(symbol, 0, 4)?)?);
        }
        Some(names)
    }

    /// The number of each version that is needed, its name and its library. The lists are linked by distances; a step that leads
    /// nowhere or back is their end.
    fn needed_versions(&self) -> Vec<(u16, String, String)> {
        let mut all = Vec::new();
        let mut at = 0;
        while let Some((library, first, next)) = self.need(at) {
            let mut entry = at.saturating_add(first);
            while let (Some(number), Some(name), Some(step)) = (
                word(&self.needed, entry + 6, 2),
                word(&self.needed, entry + 8, 4).and_then(|name| self.string(name)),
                word(&self.needed, entry + 12, 4),
            ) {
                all.push((number as u16, name, library.clone()));
                if step == 0 || all.len() > MAX_VERSIONS {
                    break;
                }
                entry = entry.saturating_add(step);
            }
            if next == 0 || all.len() > MAX_VERSIONS {
                break;
            }
            at = at.saturating_add(next);
        }
        all
    }

    /// The library of an entry, where its versions begin, and the next entry.
    fn need(&self, at: u64) -> Option<(String, u64, u64)> {
        let library = self.string(word(&self.needed, at.checked_add(4)?, 4)?)?;
        Some((library, word(&self.needed, at + 8, 4)?, word(&self.needed, at + 12, 4)?))
    }

    fn string(&self, at: u64) -> Option<String> {
        let rest = self.strings.get(usize::try_from(at).ok()?..)?;
        let text = rest.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

fn is_undefined(symbol: &[u8]) -> bool {
    word(symbol, 6, 2) == Some(0)
}

fn section(header: &[u8]) -> Option<Section> {
    Some(Section {
        kind: word(header, 4, 4)? as u32,
        at: word(header, 24, 8)?,
        length: word(header, 32, 8)?,
        link: word(header, 40, 4)? as usize,
    })
}

fn table(file: &File, at: u64, length: u64) -> Option<Vec<u8>> {
    let end = file.metadata().ok()?.len();
    if length > MAX_TABLE || at.checked_add(length)? > end {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
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
    fn a_program_takes_names_with_versions_from_the_c_library() {
        let taken = imports(Path::new("/proc/self/exe")).expect("this test");
        let read = taken.iter().find(|import| import.name == "memcpy").expect("every program");
        assert_eq!(read.library, "libc.so.6");
        assert!(read.version.starts_with("GLIBC_2."), "{read:?}");
    }

    #[test]
    fn a_library_offers_names() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("this test");
        let c = maps.lines().filter_map(|line| line.split_whitespace().last());
        let c = c.into_iter().find(|path| path.ends_with("/libc.so.6")).expect("it is loaded");
        let offered = exports(Path::new(c)).expect("a library");
        assert!(offered.contains("memcpy") && !offered.contains("ibv_alloc_pd"));
    }

    #[test]
    fn files_that_are_cut_garbled_or_none_of_ours_are_read_without_harm() {
        let own = std::fs::read("/bin/true").expect("a program");
        let file = std::env::temp_dir().join(format!("uroce-symbols-{}", std::process::id()));
        let known = |bytes: &[u8]| {
            std::fs::write(&file, bytes).expect("a file");
            imports(&file).expect("it can be read").len()
        };
        assert!(known(&own) > 0);
        assert_eq!(known(b"#!/bin/sh\n"), 0);
        assert_eq!(known(b""), 0);
        let step = own.len() / 97 + 1;
        for at in (0..own.len()).step_by(step).chain(0..64) {
            known(&own[..at]);
            let mut garbled = own.clone();
            garbled.iter_mut().skip(at).take(8).for_each(|byte| *byte = 0xff);
            known(&garbled);
        }
        std::fs::remove_file(&file).expect("ours");
    }
}
