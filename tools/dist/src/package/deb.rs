//! The package for Debian and its relatives, by dpkg-deb.

use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use uroce_testbed::error::{Context, Result};
use uroce_testbed::process::{command, run, stdout_of};

use super::files;
use super::needs::SystemNeeds;
use super::root::stage;
use super::scripts::{AFTER_REMOVAL, BEFORE_REMOVAL};
use super::{DESCRIPTION, SUMMARY, VERSION};
use crate::dist::write;

/// Where Debian's zsh looks for completions of packages, and where others do.
const ZSH: [&str; 2] = ["usr/share/zsh/vendor-completions", "usr/share/zsh/site-functions"];

/// The architecture, as dpkg calls it.
fn architecture() -> &'static str {
    match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Where it is.
pub fn path(out: &Path) -> PathBuf {
    out.join(format!("uroce_{VERSION}_{}.deb", architecture()))
}

/// Packs what is built.
///
/// # Errors
/// There is no `dpkg-deb`, or no room.
pub fn make(built: &Path, needs: &SystemNeeds, out: &Path, time: &str) -> Result<PathBuf> {
    let (folder, _guard) = stage(built, "deb")?;
    let why = || "could not move the completions of zsh";
    fs::rename(folder.join(ZSH[1]), folder.join(ZSH[0])).context(why)?;
    let copyright = copyright(&folder)?;
    write(&folder.join("usr/share/doc/uroce/copyright"), copyright.as_bytes())?;
    let all = files::below(&folder)?;
    let is_file = |path: &&PathBuf| folder.join(path).symlink_metadata().is_ok_and(|f| f.is_file());
    let plain: Vec<_> = all.iter().filter(is_file).collect();
    let sums = stdout_of(command(["md5sum"]).args(&plain).current_dir(&folder))?;
    let bytes: u64 =
        plain.iter().filter_map(|path| folder.join(path).metadata().ok()).map(|f| f.len()).sum();
    write(&folder.join("DEBIAN/md5sums"), sums.as_bytes())?;
    write(&folder.join("DEBIAN/control"), control(needs, bytes).as_bytes())?;
    for (name, script) in [("prerm", BEFORE_REMOVAL), ("postrm", AFTER_REMOVAL)] {
        write_script(&folder.join("DEBIAN").join(name), script)?;
    }
    let path = path(out);
    let mut dpkg = command(["dpkg-deb", "--root-owner-group", "-Zxz", "--build"]);
    run(dpkg.env("SOURCE_DATE_EPOCH", time).arg(&folder).arg(&path))?;
    Ok(path)
}

fn write_script(file: &Path, script: &str) -> Result<()> {
    write(file, script.as_bytes())?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
        .context(|| format!("could not set the mode of {}", file.display()))
}

fn control(needs: &SystemNeeds, bytes: u64) -> String {
    let mut depends = vec![format!("libc6 (>= {})", needs.glibc_text())];
    if needs.others().contains(&"libgcc_s.so.1") {
        depends.push("libgcc-s1".to_owned());
    }
    let description: String = DESCRIPTION.lines().map(|line| format!(" {line}\n")).collect();
    format!(
        "Package: uroce\nVersion: {VERSION}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {}\n\
         Depends: {}\nSuggests: ibverbs-utils, rdmacm-utils, perftest\nSection: net\nPriority: optional\n\
         Description: {SUMMARY}\n{description}",
        architecture(),
        env!("CARGO_PKG_AUTHORS"),
        bytes.div_ceil(1024),
        depends.join(", "),
    )
}

/// What Debian wants to find about licences.
fn copyright(folder: &Path) -> Result<String> {
    let licence = fs::read_to_string(folder.join("usr/share/doc/uroce/LICENSE-MIT"))
        .context(|| "could not read the licence")?;
    Ok(format!(
        "uroce may be used under the MIT licence or the Apache licence 2.0, as you like. The latter is in LICENSE-APACHE\n\
         beside this file, and the licences of what the program is linked with are in THIRD-PARTY.md. The MIT licence:\n\n\
         {licence}"
    ))
}

#[cfg(test)]
mod tests {
    use uroce_testbed::process::find_program;

    use super::super::root;
    use super::*;

    #[test]
    fn the_package_has_the_scripts_of_its_removal() {
        if find_program("dpkg-deb").is_none() {
            assert!(std::env::var_os("CI").is_none(), "CI has dpkg-deb");
            println!("skipped: there is no dpkg-deb");
            return;
        }
        let (folder, _guard) = root::folder("deb-test").expect("room");
        let built = folder.join("built");
        for file in ["doc/uroce/LICENSE-MIT", "man/man1/uroce.1", "zsh/site-functions/_uroce"] {
            write(&built.join("share").join(file), b"x\n").expect("room");
        }
        let package = make(&built, &SystemNeeds::default(), &folder, "0").expect("a package");
        let control = folder.join("control");
        run(command(["dpkg-deb", "--control"]).arg(package).arg(&control)).expect("readable");
        for (name, expected) in [("prerm", BEFORE_REMOVAL), ("postrm", AFTER_REMOVAL)] {
            let script = control.join(name);
            assert_eq!(fs::read_to_string(&script).expect(name), expected);
            let mode = script.metadata().expect(name).permissions().mode();
            assert_eq!(mode & 0o777, 0o755, "{name}");
        }
    }

    #[test]
    fn the_control_file_names_what_is_needed() {
        let control = control(&SystemNeeds::default(), 2048);
        assert!(control.contains("\nDepends: libc6 (>= 0.0)\n"), "{control}");
        assert!(control.contains("\nInstalled-Size: 2\n"), "{control}");
        assert!(control.lines().all(|line| !line.is_empty()), "{control}");
    }
}
