//! Options of every command.

use std::net::IpAddr;
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use uroce_device::limits::MAX_ENGINES;
use uroce_device::{DatapathChoice, Faults, UnknownDatapath};

use crate::failure::Failure;
use crate::faults;

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Open the device on this address of the machine [default: the one that reaches the peer]
    #[arg(long, global = true, value_name = "IP", conflicts_with = "ib_dev")]
    pub address: Option<IpAddr>,
    /// Open this device (see `uroce devices`), or the device with this address
    #[arg(short = 'd', long, visible_alias = "device", global = true, value_name = "NAME")]
    pub ib_dev: Option<String>,
    /// UDP port of RoCE, at both ends [default: 4791]
    #[arg(long, global = true, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub roce_port: Option<u16>,
    /// How packets travel; auto is served where `uroce serve` serves the address, and udp elsewhere; the others are
    /// used only when they are named: `uroce devinfo -v` says why [default: auto]
    #[arg(long, global = true, value_name = "HOW",
          value_parser = PossibleValuesParser::new(datapath_names()).try_map(read_datapath))]
    pub datapath: Option<DatapathChoice>,
    /// Engines of each device, each on a core of its own; see `perf -q` and README [default: 1]
    #[arg(long, global = true, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_ENGINES)))]
    pub engines: Option<u8>,
    /// Send each WRITE as FIRST, MIDDLE and LAST, as NICs do. Otherwise one of up to 64 KiB leaves as a WRITE ONLY for each
    /// packet where that is faster (docs/adr/036-split-writes.md)
    #[arg(long, global = true)]
    pub no_split_writes: bool,
    /// Record every packet that the command sends and receives into a pcapng file, with comments on drops and repetitions. %p in the name becomes
    /// the process id; so does a name that another process records to (docs/captures.md)
    #[arg(long, global = true, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Make faults on purpose in what devices send and receive: lose, delay, double, damage packets by rules
    /// ('rx drop 1%', 'tx op=write -> drop count=1'), or by those in a file (docs/faults.md); may be repeated
    #[arg(long = "fault", global = true, value_name = "RULES|@FILE")]
    pub fault: Vec<String>,
    /// The seed of the faults, to repeat a run [default: drawn, and printed]
    #[arg(long, global = true, value_name = "N")]
    pub fault_seed: Option<u64>,
    /// The faults of all `--fault` together; none without one
    #[arg(skip)]
    pub faults: Option<Faults>,
    /// What `--fault` has replaced
    #[arg(long, global = true, value_name = "PERCENT", hide = true)]
    drop: Option<String>,
    /// Say what happens inside: off, error, warn, info, debug (on stderr)
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log: Option<String>,
    /// Print one JSON object, also about a failure
    #[arg(long, global = true)]
    pub json: bool,
}

/// The names of datapaths; help leaves out the one that is slower than another in every respect.
fn datapath_names() -> Vec<PossibleValue> {
    let named = |name: &&'static str| PossibleValue::new(*name).hide(*name == "uring");
    DatapathChoice::NAMES.iter().map(named).collect()
}

fn read_datapath(name: String) -> Result<DatapathChoice, UnknownDatapath> {
    name.parse()
}

impl Global {
    /// Fills what the command line left open from the environment.
    ///
    /// # Errors
    /// Exit 2 for a variable with a value that means nothing.
    pub fn with_environment(mut self) -> Result<Self, Failure> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if self.address.is_none() && self.ib_dev.is_none() {
            self.ib_dev = set("UROCE_DEVICE");
        }
        if let (None, Some(name)) = (&self.datapath, set("UROCE_DATAPATH")) {
            let bad = |error| Failure::usage(format!("UROCE_DATAPATH: {error}"));
            self.datapath = Some(name.parse().map_err(bad)?);
        }
        if let (None, Some(number)) = (self.engines, set("UROCE_ENGINES")) {
            let engines = number.parse().ok().filter(|engines| (1..=MAX_ENGINES).contains(engines));
            self.engines = Some(engines.ok_or_else(|| {
                Failure::usage(format!(
                    "UROCE_ENGINES is {number}, not a number from 1 to {MAX_ENGINES}"
                ))
            })?);
        }
        if let (None, Some(number)) = (self.roce_port, set("UROCE_ROCE_PORT")) {
            let port = number.parse().ok().filter(|port| *port > 0);
            self.roce_port = Some(port.ok_or_else(|| {
                Failure::usage(format!("UROCE_ROCE_PORT is {number}, not a number from 1 to 65535"))
            })?);
        }
        if let Some(wanted) = set("UROCE_SPLIT_WRITES") {
            self.no_split_writes |= match &*wanted {
                "0" => true,
                "1" => false,
                _ => {
                    return Err(Failure::usage(format!(
                        "UROCE_SPLIT_WRITES is {wanted}, not 0 or 1"
                    )));
                }
            };
        }
        self.read_faults(set)?;
        self.pcap = self.pcap.or_else(|| set("UROCE_PCAP").map(PathBuf::from));
        if self.pcap.as_deref() == Some(Path::new("-")) {
            return Err(Failure::usage("a recording has no place on stdout, which is for results").help(
                "name a file, or a pipe of mkfifo(1) for a program that reads while it is written (docs/captures.md)",
            ));
        }
        self.log = self.log.or_else(|| set("UROCE_LOG"));
        Ok(self)
    }

    fn read_faults(&mut self, set: impl Fn(&str) -> Option<String>) -> Result<(), Failure> {
        refuse_drop(self.drop.as_deref().or(set("UROCE_DROP").as_deref()))?;
        if self.fault.is_empty() {
            self.fault.extend(set("UROCE_FAULT"));
        }
        if let (None, Some(text)) = (self.fault_seed, set("UROCE_FAULT_SEED")) {
            let bad = |_| Failure::usage(format!("UROCE_FAULT_SEED is {text}, not a whole number"));
            self.fault_seed = Some(text.parse().map_err(bad)?);
        }
        self.faults = faults::read(&self.fault, self.fault_seed)?;
        Ok(())
    }

    /// UDP port of RoCE, at both ends.
    pub fn roce_port(&self) -> u16 {
        self.roce_port.unwrap_or(uroce_device::ROCE_PORT)
    }

    /// How many engines each device has.
    pub fn engines(&self) -> NonZeroU8 {
        self.engines.and_then(NonZeroU8::new).unwrap_or(NonZeroU8::MIN)
    }

    /// How packets travel.
    pub fn datapath(&self) -> DatapathChoice {
        self.datapath.clone().unwrap_or_default()
    }

    /// How packets travel between this process and another.
    ///
    /// # Errors
    /// Exit 2 for a datapath that ends within the process.
    pub fn datapath_to_peers(&self) -> Result<DatapathChoice, Failure> {
        match self.datapath() {
            DatapathChoice::Loopback(_) => Err(Failure::usage(
                "a switch inside this process (--datapath loopback) does not reach a peer",
            )
            .help(
                "leave --datapath out, or run both ends here: `uroce demo`, `uroce perf --local`",
            )),
            other => Ok(other),
        }
    }
}

/// `--drop` and UROCE_DROP are rules now.
fn refuse_drop(percent: Option<&str>) -> Result<(), Failure> {
    match percent {
        None => Ok(()),
        Some(percent) => Err(Failure::usage("--drop and UROCE_DROP have become fault rules").help(
            format!("write --fault 'rx drop {percent}%', or set UROCE_FAULT (docs/faults.md)"),
        )),
    }
}
