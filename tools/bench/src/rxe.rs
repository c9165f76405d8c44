//! The kernel's rxe with the stock programs, and `uroce perf`, side by side in one virtual machine.
//!
//! Both ends run in the guest. rxe hands packets to itself inside the kernel, without a wire; ours go
//! through UDP sockets on the loopback interface.

use std::fs;
use std::time::Duration;

use uroce_rxe_guest::script::tcp_listens;
use uroce_rxe_guest::{Guest, GuestConfig};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::packages;

use crate::Setup;
use crate::interleave::{self, Benchmark};
use crate::perftest::{self, Test};
use crate::record::{Reading, Series, Unit};
use crate::uroce::WAITS_AT;

/// The name of this group.
pub const GROUP: &str = "rxe";
const LIMIT: Duration = Duration::from_secs(90);

/// Bandwidth of large WRITEs.
pub const BANDWIDTH: Test = Test {
    title: "WRITE 64 KiB",
    stock: "ib_write_bw",
    ours: "write bw",
    flags: "-s 65536 -D 3 --report_gbits",
    column: perftest::BANDWIDTH,
    unit: Unit::Gbps,
};

/// Half a round trip of small SENDs.
pub const LATENCY: Test = Test {
    title: "SEND 64 B half round trip",
    stock: "ib_send_lat",
    ours: "send lat",
    flags: "-s 64 -n 2000",
    column: perftest::TYPICAL,
    unit: Unit::Us,
};

/// The name of our series.
pub fn our_name(test: &Test) -> String {
    format!("uroce {}", test.title)
}

/// The name of rxe's series.
pub fn baseline(test: &Test) -> String {
    format!("rxe {}", test.title)
}

/// Boots the guest and measures.
///
/// # Errors
/// Not root, packages are missing, or the guest does not boot.
pub fn run(setup: &Setup) -> Result<Vec<Series>> {
    packages::ensure(packages::RXE_GUEST)?;
    eprintln!("{GROUP}: booting the guest");
    let guest = Guest::boot(&GuestConfig { ipv6: false, ..GuestConfig::default() })?;
    let copy = guest.share().join("uroce");
    fs::copy(&setup.program, &copy).context(|| "could not copy uroce into the guest's folder")?;
    let address = guest.address();
    let index = guest.gid_index(address)?;
    let mut benchmarks = Vec::new();
    for test in [BANDWIDTH, LATENCY] {
        let Test { stock, ours, flags, unit, .. } = test;
        let stock = format!("{stock} -d rxe0 -x {index} -F {flags}");
        // rxe has the usual port.
        let ours = format!("/mnt/share/uroce perf {ours} {flags} --datapath udp --roce-port 4793");
        let scripts = [
            script(&stock, &address.to_string(), ""),
            script(&ours, "127.0.0.2", "--address 127.0.0.2"),
        ];
        let [stock, ours] = scripts.map(|script| {
            let guest = &guest;
            move || measure(guest, &script, test.column)
        });
        benchmarks.push(Benchmark::new(baseline(&test), unit, &[], stock));
        benchmarks.push(Benchmark::new(our_name(&test), unit, &[&baseline(&test)], ours));
    }
    Ok(interleave::run(GROUP, benchmarks, 0, setup.rounds.min(5), &setup.best))
}

/// Both ends of `program`; only the client's table is printed.
fn script(program: &str, server: &str, server_only: &str) -> String {
    let listens = tcp_listens(WAITS_AT);
    format!(
        "ip link set lo up\n\
         timeout 60 {program} {server_only} >/dev/null 2>&1 &\n\
         left=100\n\
         until {listens} || [ $left = 0 ]; do\n\
         sleep 0.2; left=$((left - 1)); done\n\
         timeout 60 {program} {server} 2>&1\n\
         code=$?\n\
         wait\n\
         exit $code\n"
    )
}

fn measure(guest: &Guest, script: &str, column: usize) -> Result<Reading> {
    let output = guest.run(script, LIMIT)?;
    match (output.code, perftest::figure(&output.text, column)) {
        (0, Some(value)) => Ok(Reading::new(value)),
        (code, _) => Err(Error::new(format!("exit code {code}, it printed:\n{}", output.text))),
    }
}
