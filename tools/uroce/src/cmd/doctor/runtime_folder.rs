//! Whether programs under `uroce run` can be shown what they look for below /sys/class/infiniband.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::finding::Finding;

const NAME: &str = "runtime folder";

/// The folder in which the library writes what such programs read.
pub fn examine() -> Finding {
    let writable = |folder: &Path| access(folder, Access::WRITE_OK | Access::EXEC_OK);
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|folder| folder.is_dir() && writable(folder).is_ok());
    let folder = runtime.unwrap_or_else(std::env::temp_dir);
    judge(&folder, writable(&folder))
}

fn judge(folder: &Path, writable: rustix::io::Result<()>) -> Finding {
    let repair = match folder == Path::new("/tmp") {
        true => "sudo mount -t tmpfs tmpfs /tmp",
        false => "unset TMPDIR",
    };
    let folder = folder.display();
    match writable {
        Ok(()) => Finding::ok(NAME, format!("{folder} can be written")),
        Err(error) => Finding::note(
            NAME,
            format!(
                "{folder} cannot be written ({error}): programs under `uroce run` find no device below \
                 /sys/class/infiniband, which UCX and NCCL need"
            ),
        )
        .repair(repair),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::doctor::finding::State;

    #[test]
    fn a_folder_that_cannot_be_written_is_told_with_its_consequence() {
        let found = judge(Path::new("/tmp"), Err(rustix::io::Errno::ROFS));
        assert!(found.state == State::Note && found.what.contains("UCX"), "{found}");
        assert_eq!(found.repair.as_deref(), Some("sudo mount -t tmpfs tmpfs /tmp"));
        let elsewhere = judge(Path::new("/elsewhere"), Err(rustix::io::Errno::ROFS));
        assert_eq!(elsewhere.repair.as_deref(), Some("unset TMPDIR"));
        assert_eq!(judge(Path::new("/tmp"), Ok(())).state, State::Ok);
    }
}
