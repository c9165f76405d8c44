//! `--annotate`: the capture again, with comments.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use uroce_analyze::CaptureWriter;
use uroce_analyze::report::{Analysis, Seen, first_sent, remarks};

use crate::failure::Failure;
use crate::source::{self, Capture, SourceArgs};

/// A capture file that is being written.
pub struct Annotated {
    path: PathBuf,
    writer: CaptureWriter<BufWriter<File>>,
}

impl Annotated {
    /// Creates the file `path` for the capture `source`.
    ///
    /// # Errors
    /// Exit 2 if both are the same file; exit 3 if it cannot be written.
    pub fn create(path: &Path, source: &SourceArgs) -> Result<Self, Failure> {
        if source.is(path) {
            let what = format!("{} is the capture that is read", path.display());
            return Err(Failure::usage(what).help("give --annotate another name"));
        }
        let made = File::create(path).and_then(|file| CaptureWriter::new(BufWriter::new(file)));
        let writer = made.map_err(|error| unwritable(path, &error))?;
        Ok(Self { path: path.to_owned(), writer })
    }

    /// Copies the capture, each packet with what is remarkable about it.
    ///
    /// # Errors
    /// What ends the capture early, or keeps the copy from being written.
    pub fn copy(&mut self, capture: &mut Capture, analysis: &mut Analysis) -> Result<(), Failure> {
        let comments = RefCell::new(Vec::new());
        let note = |seen: Seen<'_>| {
            let mut comments = comments.borrow_mut();
            comments.extend(remarks(seen.packet, seen.annotation));
            comments.extend(first_sent(seen.annotation));
        };
        source::analyse(capture, analysis, &mut |_, seen| note(seen), &mut |frame| {
            let mut comments = comments.borrow_mut();
            let texts: Vec<_> = comments.iter().map(String::as_str).collect();
            let written = self.writer.write_frame(frame, &texts);
            comments.clear();
            written.map_err(|error| unwritable(&self.path, &error))
        })
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// Exit 3 if it cannot be written.
    pub fn finish(self) -> Result<(), Failure> {
        let Self { path, writer } = self;
        writer.finish().map(|_| ()).map_err(|error| unwritable(&path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::environment(format!("cannot write {}: {error}", path.display()))
}
