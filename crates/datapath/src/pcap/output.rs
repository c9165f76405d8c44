//! The file of a capture on disk: its name, and whole blocks at its end.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use uroce_host::NoSigpipe;

/// Names that are tried behind the one that was asked for.
const OTHER_NAMES: u32 = 100;

/// The open file. The lock on it tells other processes that it is in use.
#[derive(Debug)]
pub(super) struct Output {
    file: File,
    /// A file that can be shortened, not a pipe.
    regular: bool,
    /// Bytes of whole blocks in the file.
    length: u64,
    /// The first error; nothing is written after it.
    failed: Option<Failed>,
}

/// The error that ended a capture.
#[derive(Debug)]
struct Failed {
    kind: io::ErrorKind,
    reason: String,
}

impl Output {
    /// The standard output. It is not shortened after an error: others may write to it.
    pub(super) fn stdout() -> io::Result<Self> {
        let file = io::stdout().as_fd().try_clone_to_owned()?.into();
        Ok(Self { file, regular: false, length: 0, failed: None })
    }

    /// Opens a file for a new capture, and says which: that of `path`, or one with the process id in its name
    /// if another capture is being written to that. With `keep`, neither is a file replaced that has
    /// something in it.
    pub(super) fn open(path: &Path, keep: bool) -> io::Result<(Self, PathBuf)> {
        let path = with_process_id(path);
        for number in 0..=OTHER_NAMES {
            let name = numbered(&path, number);
            if let Some(output) = Self::take(&name, keep)? {
                return Ok((output, name));
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    /// Empties the file of this very name, unless another capture is being written to it.
    pub(super) fn make_room(path: &Path) -> io::Result<()> {
        Self::take(path, false).map(drop)
    }

    /// Opens and empties the file; `None` if it is in use or to be kept.
    fn take(path: &Path, keep: bool) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let about = file.metadata()?;
        let regular = about.is_file();
        if regular {
            // A file system without locks is no reason to record nothing.
            let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
            if locked == Err(Errno::WOULDBLOCK) || keep && file.metadata()?.len() > 0 {
                return Ok(None);
            }
            file.set_len(0)?;
        }
        Ok(Some(Self { file, regular, length: 0, failed: None }))
    }

    /// Adds whole blocks. After an error the file ends where the blocks before these do.
    pub(super) fn write(&mut self, blocks: &[u8]) -> Result<(), String> {
        if let Some(failed) = &self.failed {
            return Err(failed.reason.clone());
        }
        // The reader of a pipe may go; it is the capture that ends by that, not the program.
        let no_sigpipe = (!self.regular).then(NoSigpipe::new);
        let written = self.file.write_all(blocks);
        drop(no_sigpipe);
        let Err(error) = written else {
            self.length += blocks.len() as u64;
            return Ok(());
        };
        if self.regular {
            // If that fails too, readers see that the last block was cut.
            let _ = self.file.set_len(self.length);
        }
        let failed = Failed { kind: error.kind(), reason: error.to_string() };
        Err(self.failed.insert(failed).reason.clone())
    }

    /// The error that ended the capture.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failed.as_ref().map(|failed| failed.reason.as_str())
    }

    /// The kind of that error.
    pub(super) fn failure_kind(&self) -> Option<io::ErrorKind> {
        self.failed.as_ref().map(|failed| failed.kind)
    }

    /// Bytes of whole blocks that were written.
    pub(super) fn length(&self) -> u64 {
        self.length
    }
}

/// The name with the process id where it says `%p`.
pub(super) fn with_process_id(path: &Path) -> PathBuf {
    let id = std::process::id().to_string();
    let mut name = Vec::new();
    let mut rest = path.as_os_str().as_bytes();
    while let Some(at) = rest.windows(2).position(|two| two == b"%p") {
        name.extend_from_slice(&rest[..at]);
        name.extend_from_slice(id.as_bytes());
        rest = &rest[at + 2..];
    }
    name.extend_from_slice(rest);
    OsString::from_vec(name).into()
}

/// `capture.pcapng`, `capture.123.pcapng`, `capture.123-2.pcapng` and so on, where 123 is the process id.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let id = std::process::id();
    let tag = match number {
        0 => return path.to_owned(),
        1 => id.to_string(),
        more => format!("{id}-{more}"),
    };
    let mut name = path.file_stem().map(OsStr::to_owned).unwrap_or_default();
    name.push(".");
    name.push(tag);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_the_process_id_where_they_say_so() {
        let id = std::process::id();
        let named = |text: &str| with_process_id(Path::new(text));
        assert_eq!(named("/tmp/a.pcapng"), Path::new("/tmp/a.pcapng"));
        assert_eq!(named("%p/a%p%p.x"), PathBuf::from(format!("{id}/a{id}{id}.x")));
        assert_eq!(named("100%"), Path::new("100%"));
    }

    #[test]
    fn other_names_keep_folder_and_extension() {
        let id = std::process::id();
        let other = |text: &str, number| numbered(Path::new(text), number);
        assert_eq!(other("d/a.pcapng", 0), Path::new("d/a.pcapng"));
        assert_eq!(other("d/a.pcapng", 1), PathBuf::from(format!("d/a.{id}.pcapng")));
        assert_eq!(other("a", 2), PathBuf::from(format!("a.{id}-2")));
    }
}
