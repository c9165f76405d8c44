//! The container image, built and run by buildah without a daemon: each step is a process in a changed root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use uroce_testbed::cleanup::Guard;
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, run, stdout_of};
use uroce_testbed::workspace;

use super::{ensure, root};
use crate::dist::write;

/// How the image is made.
const CONTAINERFILE: &str = "tools/dist/container/Containerfile";
/// What the image starts from here: no registry of images is asked.
const BASE: &str = "localhost/uroce-base";
const IMAGE: &str = "localhost/uroce";
/// Both ends in one container, on two addresses of it.
const BANDWIDTH: &str = "uroce run --device 127.0.0.1 -- ib_write_bw -F -x 1 >/dev/null & server=$!; \
    until grep -q ':4853 00000000:0000 0A' /proc/net/tcp; do sleep 0.1; done; \
    uroce run --device 127.0.0.2 -- ib_write_bw -F -x 1 127.0.0.1 && wait $server";

/// A store of images that is removed with its folder.
struct ImageStore {
    folder: PathBuf,
    _guard: Guard,
}

impl ImageStore {
    fn buildah(&self, words: &[&str]) -> Command {
        let mut buildah = command(["buildah", "--storage-driver", "vfs"]);
        buildah.arg("--root").arg(self.folder.join("store"));
        buildah.arg("--runroot").arg(self.folder.join("run"));
        buildah.args(words).env("BUILDAH_ISOLATION", "chroot");
        buildah
    }
}

/// Builds the image on the root in the tar archive `base` and runs stock programs in it as its user.
///
/// # Errors
/// It does not build, or a program fails in it.
pub fn check(base: &Path, package: &Path) -> Result<()> {
    ensure(&["buildah"])?;
    let (folder, guard) = root::folder("package-container")?;
    let store = ImageStore { folder, _guard: guard };
    let context = store.folder.join("context");
    write(&context.join("Containerfile"), b"FROM scratch\nADD base.tar /\n")?;
    let copied = |from: &Path, name: &str| {
        let copy = fs::copy(from, context.join(name));
        copy.context(|| format!("could not copy {}", from.display()))
    };
    copied(base, "base.tar")?;
    run(store.buildah(&["bud", "--quiet", "--tag", BASE]).arg(&context))?;
    fs::remove_file(context.join("base.tar")).context(|| "could not remove the base")?;
    copied(package, &package.file_name().unwrap_or_default().to_string_lossy())?;
    let file = workspace::root().join(CONTAINERFILE);
    let build =
        ["bud", "--quiet", "--tag", IMAGE, "--build-arg", &format!("BASE={BASE}"), "--file"];
    run(store.buildah(&build).arg(file).arg(&context))?;
    let container = stdout_of(&mut store.buildah(&["from", IMAGE]))?;
    let inside = |words: &[&str]| {
        let words = [&["run", container.trim(), "--"], words].concat();
        stdout_of(&mut store.buildah(&words))
    };
    let user = inside(&["id", "-u"])?;
    if user.trim() == "0" {
        return Err(Error::new("programs run as root in the image"));
    }
    if !inside(&["uroce", "run", "--", "ibv_devinfo"])?.contains("PORT_ACTIVE") {
        return Err(Error::new("ibv_devinfo shows no active port in the image"));
    }
    inside(&["sh", "-c", BANDWIDTH])?;
    let image = stdout_of(&mut store.buildah(&["images", "--format", "{{.Size}}", IMAGE]))?;
    println!(
        "ok image   {}: ran ibv_devinfo and ib_write_bw as user {}",
        image.trim(),
        user.trim()
    );
    Ok(())
}
