//! What tests of captures share.

use std::path::{Path, PathBuf};

use clap::Parser;
use uroce_analyze::CaptureReader;

use super::args::CaptureArgs;

/// A folder that is gone after the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("uroce-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The bytes of all frames in a capture that has no damage.
pub fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    read(path).0
}

/// Packets that are not in the capture, as it says itself.
pub fn lost_in(path: &Path) -> u64 {
    read(path).1
}

fn read(path: &Path) -> (Vec<Vec<u8>>, u64) {
    let bytes = std::fs::read(path).expect("a file");
    let mut reader = CaptureReader::new(&bytes[..]).expect("a capture");
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().expect("whole") {
        frames.push(frame.data.to_vec());
    }
    (frames, reader.lost_packets())
}

#[derive(Debug, Parser)]
struct Words {
    #[command(flatten)]
    args: CaptureArgs,
}

impl CaptureArgs {
    /// Those of `uroce capture` without options.
    pub fn for_tests() -> Self {
        Words::parse_from(["capture"]).args
    }
}
