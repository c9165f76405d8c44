//! The package for Fedora, Red Hat, SUSE and their relatives, by rpmbuild.

use std::env::consts::ARCH;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::Result;
use uroce_testbed::process::{command, run};

use super::files::{self, OF_THE_SYSTEM};
use super::root::stage;
use super::scripts::{AFTER_REMOVAL, BEFORE_REMOVAL};
use super::{DESCRIPTION, SUMMARY, VERSION};
use crate::dist::write;

/// What rpmbuild is told. Our libraries bear names of the system's, which they must not be taken for: they are no
/// `Provides`. What is built is not stripped again. xz is what the rpm of every system reads.
const HEADER: &str = "\
%global debug_package %{nil}
%global _build_id_links none
%global __os_install_post %{nil}
%global __provides_exclude_from ^/usr/lib/uroce/
%global _binary_payload w6.xzdio
%global _buildhost localhost
%global use_source_date_epoch_as_buildtime 1
%global clamp_mtime_to_source_date_epoch 1
";

/// Where it is.
pub fn path(out: &Path) -> PathBuf {
    out.join(format!("uroce-{VERSION}-1.{ARCH}.rpm"))
}

/// Packs what is built.
///
/// # Errors
/// There is no `rpmbuild`, or no room.
pub fn make(built: &Path, out: &Path, time: &str) -> Result<PathBuf> {
    let (folder, _guard) = stage(built, "rpm")?;
    let (top, staged) = (folder.with_extension("top"), folder.display());
    let _guard_of_top = Guard::new(Leftover::Folder(top.clone()));
    let spec = top.join("uroce.spec");
    write(&spec, spec_of(&folder, &files::below(&folder)?).as_bytes())?;
    let mut rpmbuild = command(["rpmbuild", "-bb", "--quiet", "--target", ARCH]);
    rpmbuild.args(["--define", &format!("_topdir {}", top.display())]);
    rpmbuild.args(["--define", &format!("_rpmdir {}", out.display())]);
    rpmbuild.args(["--define", "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm"]);
    rpmbuild.args(["--define", &format!("staged {staged}")]);
    run(rpmbuild.env("SOURCE_DATE_EPOCH", time).arg(&spec))?;
    Ok(path(out))
}

fn spec_of(folder: &Path, all: &[PathBuf]) -> String {
    let mut spec = format!(
        "{HEADER}Name: uroce\nVersion: {VERSION}\nRelease: 1\nSummary: {SUMMARY}\nLicense: MIT OR Apache-2.0\n\n\
         %description\n{DESCRIPTION}\n\n%install\nmkdir -p %{{buildroot}}\ncp -a %{{staged}}/. %{{buildroot}}/\n\n\
         %preun\n{BEFORE_REMOVAL}\n%postun\n{AFTER_REMOVAL}\n%files\n%defattr(-,root,root)\n"
    );
    for path in all {
        let inside = path.display().to_string();
        let found = folder.join(path).symlink_metadata();
        let is_folder = found.is_ok_and(|found| found.is_dir());
        let mark = if is_folder { "%dir " } else { "" };
        if !OF_THE_SYSTEM.contains(&inside.as_str()) {
            writeln!(spec, "{mark}/{inside}").expect("memory");
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use uroce_testbed::process::{find_program, stdout_of};

    use super::super::root;
    use super::*;

    #[test]
    fn no_macro_of_rpm_is_in_a_script() {
        for script in [BEFORE_REMOVAL, AFTER_REMOVAL] {
            assert!(!script.contains('%'), "rpmbuild would expand it: {script}");
        }
        let spec = spec_of(Path::new("/"), &[]);
        assert!(spec.contains(&format!("\n%preun\n{BEFORE_REMOVAL}\n%postun\n{AFTER_REMOVAL}\n")));
    }

    #[test]
    fn the_package_has_the_scripts_of_its_removal() {
        if find_program("rpmbuild").is_none() || find_program("rpm").is_none() {
            assert!(std::env::var_os("CI").is_none(), "CI has rpmbuild");
            println!("skipped: there is no rpmbuild");
            return;
        }
        let (folder, _guard) = root::folder("rpm-test").expect("room");
        let built = folder.join("built");
        write(&built.join("share/man/man1/uroce.1"), b"x\n").expect("room");
        let package = make(&built, &folder, "0").expect("a package");
        let mut query = command(["rpm", "--query", "--scripts", "--package"]);
        let scripts = stdout_of(query.arg(package)).expect("readable");
        for script in [BEFORE_REMOVAL, AFTER_REMOVAL] {
            assert!(scripts.contains(script.trim_end()), "{scripts}");
        }
    }

    #[test]
    fn folders_of_the_system_are_not_of_the_package() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let all = ["usr/bin", "src", "Cargo.toml"].map(PathBuf::from);
        let spec = spec_of(here, &all);
        assert!(spec.ends_with("%defattr(-,root,root)\n%dir /src\n/Cargo.toml\n"), "{spec}");
    }
}
