//! What AF_XDP rings carry with nothing above them: the yardstick for that datapath.

use std::path::PathBuf;

use serde::Deserialize;
use uroce_testbed::error::{Context, Result};
use uroce_testbed::process::stdout_of;
use uroce_testbed::workspace;

use crate::link::{FAR, Link, NEAR};
use crate::record::Reading;
use crate::uroce::Server;

/// Bytes of a RoCE packet around its payload, in UDP: BTH and ICRC.
const AROUND: u32 = 16;

#[derive(Debug, Deserialize)]
struct Counted {
    mpps: f64,
}

/// Builds the program.
///
/// # Errors
/// It does not compile.
pub fn build() -> Result<PathBuf> {
    let words = ["build", "--release", "--locked", "--quiet", "--package", "uroce-xdp"];
    uroce_testbed::process::run(workspace::cargo(&words).args(["--example", "bare_rings"]))?;
    Ok(workspace::target_folder().join("release/examples/bare_rings"))
}

/// Gigabits of RoCE payload a second, in packets of `payload` bytes of it.
///
/// # Errors
/// One of the ends failed: the kernel has no AF_XDP, or the interface's hook is taken.
pub fn bandwidth(link: &Link, program: &str, payload: u32) -> Result<Reading> {
    let line = |role: &str, local: &str, peer: &str| {
        let bytes = (payload + AROUND).to_string();
        [program, role, local, peer, &bytes, "1"].map(str::to_owned)
    };
    let receiver = Server::start(link.far(&line("recv", FAR, NEAR)), || true)?;
    // It says nothing when its rings are there, and waits two seconds for the first packet.
    std::thread::sleep(std::time::Duration::from_millis(300));
    stdout_of(&mut link.near(&line("send", NEAR, FAR)))?;
    let said = receiver.finish()?;
    let counted: Counted =
        serde_json::from_str(&said).context(|| "the bare rings printed no count")?;
    Ok(Reading::new(counted.mpps * f64::from(payload) * 8.0 / 1000.0))
}
