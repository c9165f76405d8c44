//! Connections of rdma_cm in a second: `cmtime` on our librdmacm over a veth pair, and in one virtual machine beside the
//! kernel's rxe.

use std::path::{Path, PathBuf};
use std::time::Duration;

use uroce_rxe_guest::{Guest, GuestConfig};
use uroce_testbed::error::{Error, Result};
use uroce_testbed::process::{command, run as run_command, stdout_of};
use uroce_testbed::{install, packages, workspace};

use crate::Setup;
use crate::interleave::{self, Benchmark};
use crate::link::{FAR, Link, NEAR};
use crate::record::{Reading, Series, Unit};
use crate::uroce::Server;

/// The name of this group.
pub const GROUP: &str = "connections";
/// The series of both ends on this machine.
pub const OVER_VETH: &str = "uroce cmtime over a veth pair";
/// The series of both ends in the guest.
pub const IN_GUEST: &str = "uroce cmtime in the guest";
/// The series of rxe.
pub const BASELINE: &str = "rxe cmtime in the guest";
const MTU: u32 = 1500;
/// As many as a connection manager of ours holds unconfirmed for one peer, but for a few.
const COUNT: u32 = 250;
/// Until a server listens, which it does not say.
const START: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(90);

/// Measures over a veth pair and in the guest.
///
/// # Errors
/// Not root, packages are missing, or the libraries do not build.
pub fn run(setup: &Setup) -> Result<Vec<Series>> {
    packages::ensure(packages::PROGRAMS)?;
    packages::ensure(packages::RXE_GUEST)?;
    let folder = installed(&setup.program)?;
    let link = Link::create(MTU)?.keep_apart();
    eprintln!("{GROUP}: booting the guest");
    let guest = Guest::boot(&GuestConfig { ipv6: false, ..GuestConfig::default() })?;
    let copy = [
        "cp",
        "-rL",
        &folder.display().to_string(),
        &guest.share().join("uroce").display().to_string(),
    ];
    run_command(&mut command(copy))?;
    let address = guest.address();
    let rxe = in_guest(
        &format!("cmtime -b {address} -c {COUNT}"),
        &format!("cmtime -b {address} -s {address} -c {COUNT}"),
    );
    // rxe has the usual port.
    let uroce = |own: &str, rest: &str| {
        format!(
            "/mnt/share/uroce/bin/uroce run --device {own} --datapath udp --roce-port 4793 -- cmtime -b {own} -c {COUNT} {rest}"
        )
    };
    let ours = in_guest(&uroce("127.0.0.2", ""), &uroce("127.0.0.3", "-s 127.0.0.2"));
    let benchmarks = vec![
        Benchmark::new(BASELINE, Unit::PerSecond, &[], || measure(&guest, &rxe)),
        Benchmark::new(IN_GUEST, Unit::PerSecond, &[BASELINE], || measure(&guest, &ours)),
        Benchmark::new(OVER_VETH, Unit::PerSecond, &[], || over(&link, &folder.join("bin/uroce"))),
    ];
    Ok(interleave::run(GROUP, benchmarks, 0, setup.rounds.min(5), &setup.best))
}

/// The folder that `program` is installed in with its libraries, or a new one with libraries of this checkout.
fn installed(program: &Path) -> Result<PathBuf> {
    let whole = program.ancestors().nth(2).filter(|folder| folder.join("lib/uroce").is_dir());
    if let Some(folder) = whole {
        return Ok(folder.to_owned());
    }
    let folder = workspace::target_folder().join("dist");
    install::optimised(&folder, install::Linker::OfThisSystem)?;
    Ok(folder)
}

fn over(link: &Link, uroce: &Path) -> Result<Reading> {
    let line = |own: &str, rest: &[&str]| {
        let words = format!(
            "timeout -s KILL 60 {} run --device {own} --datapath udp -- cmtime -b {own} -c {COUNT}",
            uroce.display()
        );
        let words = words.split(' ').chain(rest.iter().copied());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let server = Server::start(link.far(&line(FAR, &[])), || true)?;
    std::thread::sleep(START);
    let printed = stdout_of(&mut link.near(&line(NEAR, &["-s", FAR])));
    // It waits for more connections.
    server.stop();
    figure(&printed?)
}

/// Both ends of `cmtime`; only the client's table is printed.
fn in_guest(server: &str, client: &str) -> String {
    format!(
        "ip link set lo up\n\
         timeout 80 {server} >/dev/null 2>&1 &\n\
         sleep 4\n\
         timeout 60 {client} 2>&1\n\
         code=$?\n\
         kill %1\n\
         exit $code\n"
    )
}

fn measure(guest: &Guest, script: &str) -> Result<Reading> {
    let output = guest.run(script, LIMIT)?;
    match output.code {
        0 => figure(&output.text),
        code => Err(Error::new(format!("exit code {code}, it printed:\n{}", output.text))),
    }
}

/// Connections a second, from the first `rdma_create_id` to the last `rdma_destroy_id`, and of the step `connect` alone: `cmtime`
/// makes each step for all of them before it goes on.
fn figure(table: &str) -> Result<Reading> {
    if table.contains("error") {
        return Err(Error::new(format!("not every connection was made:\n{table}")));
    }
    let row = |line: &str| {
        let (step, figures) = line.split_once(':')?;
        Some((step.trim().to_owned(), figures.split_whitespace().next()?.parse::<f64>().ok()?))
    };
    let steps: Vec<_> = table.lines().filter_map(row).collect();
    let all: f64 = steps.iter().map(|(_, ms)| ms).sum();
    let connect = steps.iter().find(|(step, _)| step == "connect");
    let (_, connect) = connect.ok_or_else(|| Error::new(format!("no figure in:\n{table}")))?;
    let rate = |ms: f64| f64::from(COUNT) * 1000.0 / ms.max(1e-3);
    Ok(Reading::new(rate(all)).with("connects_per_second", rate(*connect)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_all_connections_add_up() {
        let table = "creating id\nstep              total ms     max ms     min us  us / conn\n\
                     create id    :        0.20       0.01       0.00       0.86\n\
                     connect      :       12.50       8.29    3264.00      52.49\n\
                     destroy      :       12.30       0.04       5.00       7.08\n";
        let reading = figure(table).expect("a table");
        assert!((reading.value - 10_000.0).abs() < 1e-6, "{reading:?}");
        assert!((reading.extra["connects_per_second"] - 20_000.0).abs() < 1e-6, "{reading:?}");
        assert!(figure("creating id\n").is_err());
        assert!(figure(&format!("event: RDMA_CM_EVENT_REJECTED, error: 3\n{table}")).is_err());
    }
}
