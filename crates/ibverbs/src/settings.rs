//! What `uroce run` tells the library, by environment variables.

use crate::errno::{Errno, INVALID};
use std::fmt::Display;
use std::net::IpAddr;
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::sync::OnceLock;
use uroce_device::datapath::PcapFile;
use uroce_device::limits::MAX_ENGINES;
use uroce_device::{
    DatapathChoice, Interface, ROCE_PORT, UnknownDatapath, interface_of, interfaces,
};

/// The devices that the program shall see: the one that UROCE_DEVICE names (by name or address), or
/// all of this machine.
pub(crate) fn devices() -> Vec<Interface> {
    match only_device() {
        Some(wanted) => named(&wanted).into_iter().collect(),
        None => interfaces(),
    }
}

/// The program shall see one device only.
pub(crate) fn is_one_device() -> bool {
    only_device().is_some()
}

/// UROCE_DEVICE, if it is not empty. Bytes that are no text name no device.
fn only_device() -> Option<String> {
    let wanted = std::env::var_os("UROCE_DEVICE").filter(|wanted| !wanted.is_empty())?;
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
pub(crate) fn roce_port() -> u16 {
    let set = std::env::var("UROCE_ROCE_PORT").ok();
    set.and_then(|port| port.parse().ok()).unwrap_or(ROCE_PORT)
}

/// How packets travel: UROCE_DATAPATH, or the fastest way that is permitted.
pub(crate) fn datapath() -> Result<DatapathChoice, Errno> {
    match std::env::var("UROCE_DATAPATH") {
        Ok(name) if !name.is_empty() => name.parse().map_err(|error: UnknownDatapath| {
            eprintln!("uroce: UROCE_DATAPATH: {error}");
            INVALID
        }),
        _ => Ok(DatapathChoice::default()),
    }
}

/// How many engines each device has: UROCE_ENGINES, or one. The C interface shows them as completion vectors.
pub(crate) fn engines() -> NonZeroU8 {
    static ENGINES: OnceLock<NonZeroU8> = OnceLock::new();
    *ENGINES.get_or_init(|| match std::env::var("UROCE_ENGINES") {
        Ok(number) if !number.is_empty() => engines_in(&number).unwrap_or_else(|| {
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

/// The capture file of this process, if UROCE_PCAP names one. `%p` in its name becomes the process
/// id, so that the two ends of a test do not write over each other's file.
pub(crate) fn pcap() -> Option<PcapFile> {
    static FILE: OnceLock<Option<PcapFile>> = OnceLock::new();
    FILE.get_or_init(create_pcap).clone()
}

fn create_pcap() -> Option<PcapFile> {
    let name = std::env::var("UROCE_PCAP").ok().filter(|name| !name.is_empty())?;
    let path = PathBuf::from(name.replace("%p", &std::process::id().to_string()));
    let created = PcapFile::create(&path);
    created.inspect_err(|error| eprintln!("uroce: nothing is recorded: {error}")).ok()
}

/// Why a call fails, in words, for users who ask for it: C has only a number. Any UROCE_LOG but
/// `error` asks for it.
pub(crate) fn explain(error: &dyn Display) {
    static WANTED: OnceLock<bool> = OnceLock::new();
    if *WANTED.get_or_init(|| !matches!(level().as_str(), "" | "error")) {
        eprintln!("uroce: {error}");
    }
}

/// What a program does, for users who want to see it: UROCE_LOG is `debug` or `trace`, whole or for one
/// part.
pub(crate) fn tell(message: &dyn Display) {
    static WANTED: OnceLock<bool> = OnceLock::new();
    if *WANTED.get_or_init(|| ["debug", "trace"].iter().any(|much| level().contains(much))) {
        eprintln!("uroce: {message}");
    }
}

fn level() -> String {
    std::env::var("UROCE_LOG").unwrap_or_default()
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
}
