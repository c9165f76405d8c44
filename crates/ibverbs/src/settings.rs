//! What `uroce run` tells the library, by environment variables. A program with more rights than its user is told nothing.

use std::net::IpAddr;
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

use uroce_device::datapath::PcapFile;
use uroce_device::host::environment;
use uroce_device::limits::MAX_ENGINES;
use uroce_device::{
    DatapathChoice, Faults, Interface, ROCE_PORT, UnknownDatapath, interface_of, interfaces,
    interfaces_hidden,
};

use crate::errno::{Errno, INVALID};

/// The devices that the program shall see: the one that UROCE_DEVICE names (by name or address), or
/// all of this machine.
pub fn devices() -> Vec<Interface> {
    match only_device() {
        Some(wanted) => named(&wanted).into_iter().collect(),
        None => {
            let all = interfaces();
            if all.is_empty() {
                tell_why_none();
            }
            all
        }
    }
}

/// The program can only say that there is no device.
fn tell_why_none() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| match interfaces_hidden() {
        Some(error) => eprintln!("uroce: there is no device: {error}"),
        None => eprintln!(
            "uroce: there is no device: no network interface has an address; give one an address with `ip addr add`, or \
             set the loopback interface up with `ip link set lo up`"
        ),
    });
}

/// The program shall see one device only.
pub fn is_one_device() -> bool {
    only_device().is_some()
}

/// UROCE_DEVICE, if it is not empty. Bytes that are no text name no device.
fn only_device() -> Option<String> {
    let wanted = environment::variable("UROCE_DEVICE").filter(|wanted| !wanted.is_empty())?;
    Some(wanted.to_string_lossy().into_owned())
}

fn named(wanted: &str) -> Option<Interface> {
    let found = match wanted.parse::<IpAddr>() {
        Ok(address) => interface_of(address),
        Err(_) => interfaces().into_iter().find(|interface| interface.name == wanted),
    };
    if found.is_none() {
        eprintln!(
            "uroce: UROCE_DEVICE is {wanted}, but this machine has no such device: \
             `uroce devices` lists them"
        );
    }
    found
}

/// UDP port of all devices: UROCE_ROCE_PORT, or RoCE's.
pub fn roce_port() -> u16 {
    let set = environment::text("UROCE_ROCE_PORT");
    set.and_then(|port| port.parse().ok()).unwrap_or(ROCE_PORT)
}

/// How packets travel: UROCE_DATAPATH, or UDP sockets.
pub fn datapath() -> Result<DatapathChoice, Errno> {
    match environment::text("UROCE_DATAPATH") {
        Some(name) if !name.is_empty() => name.parse().map_err(|error: UnknownDatapath| {
            eprintln!("uroce: UROCE_DATAPATH: {error}");
            INVALID
        }),
        _ => Ok(DatapathChoice::default()),
    }
}

/// How many engines each device has: UROCE_ENGINES, or one. The C interface shows them as completion vectors.
pub fn engines() -> NonZeroU8 {
    static ENGINES: OnceLock<NonZeroU8> = OnceLock::new();
    *ENGINES.get_or_init(|| match environment::text("UROCE_ENGINES") {
        Some(number) if !number.is_empty() => engines_in(&number).unwrap_or_else(|| {
            eprintln!(
                "uroce: UROCE_ENGINES is {number}, but it is a number from 1 to {MAX_ENGINES}: \
                 devices have one engine"
            );
            NonZeroU8::MIN
        }),
        _ => NonZeroU8::MIN,
    })
}

fn engines_in(number: &str) -> Option<NonZeroU8> {
    number.parse().ok().filter(|engines: &NonZeroU8| engines.get() <= MAX_ENGINES)
}

/// Whether short WRITEs may leave as WRITE ONLYs: unless UROCE_SPLIT_WRITES is 0.
pub fn split_writes() -> bool {
    environment::variable("UROCE_SPLIT_WRITES").is_none_or(|wanted| wanted != "0")
}

/// The capture file of this process, if UROCE_PCAP names one. Another process that was given the same name, a child
/// for example, records to a file of its own.
pub fn pcap() -> Option<PcapFile> {
    static FILE: Mutex<Option<(u32, Option<PcapFile>)>> = Mutex::new(None);
    let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if file.as_ref().is_none_or(|(owner, _)| *owner != process) {
        *file = Some((process, create_pcap()));
    }
    file.as_ref().and_then(|(_, file)| file.clone())
}

fn create_pcap() -> Option<PcapFile> {
    let name = environment::variable("UROCE_PCAP").filter(|name| !name.is_empty())?;
    let created = PcapFile::create_beside(PathBuf::from(&name));
    let file =
        created.inspect_err(|error| eprintln!("uroce: nothing is recorded: {error}")).ok()?;
    if file.path() != Path::new(&name) && !name.to_string_lossy().contains("%p") {
        let (name, path) = (name.display(), file.path().display());
        eprintln!("uroce: another process recorded to {name}; this one records to {path}");
    }
    Some(file)
}

/// The faults that UROCE_FAULT asks for, with the seed UROCE_FAULT_SEED or one that is drawn and told. A program that is
/// to see faults does not run without them.
pub fn faults() -> Result<Option<Faults>, Errno> {
    let set = |name| environment::text(name).filter(|text| !text.is_empty());
    read_faults(set("UROCE_FAULT").as_deref(), set("UROCE_FAULT_SEED").as_deref()).map_err(|why| {
        eprintln!("uroce: {why}");
        INVALID
    })
}

fn read_faults(rules: Option<&str>, seed: Option<&str>) -> Result<Option<Faults>, String> {
    let Some(rules) = rules else { return Ok(None) };
    let plan = Faults::read(rules).map_err(|error| format!("UROCE_FAULT: {error}"))?;
    let number = |text: &str| {
        text.parse().map_err(|_| {
            format!("UROCE_FAULT_SEED is {text}, but it is a whole number from 0 to 2^64-1")
        })
    };
    let seed = seed.map(number).transpose()?;
    Faults::new(plan, seed).map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_a_number_in_range() {
        assert_eq!(engines_in("4").map(NonZeroU8::get), Some(4));
        for wrong in ["0", "65", "-1", "two"] {
            assert_eq!(engines_in(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn v132_faults_are_rules_and_a_seed() {
        let read = |rules, seed| read_faults(rules, seed);
        assert_eq!(read(None, Some("7")), Ok(None));
        let faults = read(Some("rx drop 12.5%"), Some("7")).expect("good").expect("some");
        assert_eq!((faults.plan().len(), faults.seed()), (1, 7));
        for (rules, seed, why) in
            [("dorp", "7", "UROCE_FAULT: "), ("drop 1%", "-1", "UROCE_FAULT_SEED is -1")]
        {
            let error = read(Some(rules), Some(seed)).expect_err("wrong");
            assert!(error.starts_with(why), "{error}");
        }
    }
}
