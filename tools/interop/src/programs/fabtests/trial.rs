//! One test of fabtests with one provider: a server and a client, each on the address of a network interface.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use uroce_testbed::error::Result;

use super::super::end::End;
use super::super::stage::{Stage, is_listening};
use super::super::trial::{LISTENS, both};
use super::list::{FabricTest, Provider};

/// The folder of the programs, beside our libraries.
pub const PROGRAMS: &str = "fabtests";
/// The TCP port at which the ends of some tests meet before they use the provider.
const MEETING_PORT: u16 = 3000;
/// None takes longer than 10 s on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(100);

/// Runs the test; both ends must end with 0. That a provider lacks what a test needs is another status.
///
/// # Errors
/// What the programs said when one failed.
pub fn run(test: &FabricTest, provider: Provider, stage: &Stage, folder: &Path) -> Result<()> {
    let (here, there) = (stage.alone.as_str(), stage.beside.as_str());
    let output = |name: &str| folder.join(format!("{name}.out"));
    let start = |device: &str, words: &[&str], name: &str| {
        let mut end = program(test, provider, stage, folder, device);
        End::start(end.args(words), &output(name)).map(|end| end.within(TIMEOUT))
    };
    // Endpoints of ofi_rxd cannot be found by an address of IP: the ends exchange their own over TCP.
    let (called, caller) = match provider {
        Provider::Rxd => (vec!["-E"], vec!["-E", here]),
        Provider::Verbs | Provider::Rxm => (vec!["-s", here], vec!["-s", there, here]),
    };
    let mut server = start(here, &called, "server")?;
    server.wait_until(|end| {
        is_listening(end.process(), MEETING_PORT) || end.printed().contains(LISTENS)
    })?;
    both(server, start(there, &caller, "client")?)
}

/// The test's program on the device with this address, as a user without privileges.
fn program(
    test: &FabricTest,
    provider: Provider,
    stage: &Stage,
    folder: &Path,
    device: &str,
) -> Command {
    let (name, options) = test.words();
    let uroce = folder.join("bin/uroce").display().to_string();
    let program = folder.join(PROGRAMS).join(name).display().to_string();
    let mut words = vec!["env", "FI_LOG_LEVEL=warn", &uroce, "run", "--log", "debug"];
    words.extend(["--device", device, "--", &program, "-p", provider.name()]);
    words.extend(options.split_whitespace());
    stage.command(&words)
}
