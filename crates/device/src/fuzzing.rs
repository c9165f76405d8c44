//! For fuzzers: what devices of other processes tell, read as we read it.

use crate::Resource;
use crate::report::read_lines;

/// Values of a report, at most.
const VALUES: usize = 10_000;

/// Reads the bytes as the report of a device.
///
/// # Panics
/// An object that was read and written is read as something else.
pub fn read_report(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for resource in read_lines(&text, VALUES).into_iter().flatten() {
        let again = resource.to_string().parse::<Resource>().expect("what we write can be read");
        assert_eq!(again, resource);
    }
}
