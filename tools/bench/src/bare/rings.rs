//! What AF_XDP rings carry with nothing above them, by the example program of `uroce-xdp`.

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

#[derive(Debug, Deserialize)]
struct HalfRoundTrip {
    median_us: f64,
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
    let (_, counted) = both_ends(link, program, ["send", "recv"], payload + AROUND)?;
    let counted: Counted =
        serde_json::from_str(&counted).context(|| "the bare rings printed no count")?;
    Ok(Reading::new(counted.mpps * f64::from(payload) * 8.0 / 1000.0))
}

/// Half a round trip of a packet with 8 bytes behind a RETH, in microseconds.
///
/// # Errors
/// As [`bandwidth`].
pub fn latency(link: &Link, program: &str) -> Result<Reading> {
    const RETH_AND_PAYLOAD: u32 = 16 + 8;
    let (timed, _) = both_ends(link, program, ["ping", "pong"], RETH_AND_PAYLOAD + AROUND)?;
    let timed: HalfRoundTrip =
        serde_json::from_str(&timed).context(|| "the bare rings printed no time")?;
    Ok(Reading::new(timed.median_us))
}

/// Runs the roles of the near and the far end with packets of `bytes`; what each printed.
fn both_ends(
    link: &Link,
    program: &str,
    [near, far]: [&str; 2],
    bytes: u32,
) -> Result<(String, String)> {
    let line = |role: &str, local: &str, peer: &str| {
        [program, role, local, peer, &bytes.to_string(), "1"].map(str::to_owned)
    };
    let other = Server::start(link.far(&line(far, FAR, NEAR)), || true)?;
    // It says nothing when its rings are there, and waits two seconds for the first packet.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let said = stdout_of(&mut link.near(&line(near, NEAR, FAR)))?;
    Ok((said, other.finish()?))
}
