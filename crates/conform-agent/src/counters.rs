//! What sysfs has counted for the port under test.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use uroce_conform::{Counter, Reply, limits};

use crate::device::PORT;

/// Folders of counters: those of the driver, and those that any port has.
const FOLDERS: [&str; 2] = ["hw_counters", "counters"];
/// Bytes that are read of a file: no number is longer.
const DIGITS: u64 = 32;

/// The counters of the device's port.
pub(crate) fn of_port(device: &str) -> Reply {
    below(Path::new(&format!("/sys/class/infiniband/{device}/ports/{PORT}")))
}

/// The counters in the folders of a port, as far as they are numbers.
fn below(port: &Path) -> Reply {
    let mut counters = Vec::new();
    let mut missing = None;
    for folder in FOLDERS {
        let path = port.join(folder);
        match read(&path, folder, limits::COUNTERS - counters.len()) {
            Ok(found) => counters.extend(found),
            Err(error) => missing = Some(format!("{}: {error}", path.display())),
        }
    }
    // A device may have one of the folders only.
    let missing = match (counters.is_empty(), missing) {
        (false, _) => None,
        (true, None) => Some(format!("no file of {} is a number", port.display())),
        (true, why) => why,
    };
    Reply::Counters { counters, missing }
}

fn read(path: &Path, folder: &str, room: usize) -> io::Result<Vec<Counter>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)?.take(limits::COUNTERS) {
        let name = entry?.file_name();
        names.extend(name.to_str().filter(|name| is_plain(folder, name)).map(str::to_owned));
    }
    names.sort_unstable();
    let counter = |name: &String| {
        let value = number(&path.join(name))?;
        Some(Counter { name: format!("{folder}/{name}"), value })
    };
    Ok(names.iter().filter_map(counter).take(room).collect())
}

/// The tester takes such a name.
fn is_plain(folder: &str, name: &str) -> bool {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    folder.len() + 1 + name.len() <= limits::COUNTER_NAME && name.bytes().all(usual)
}

/// The number in a file. Some files hold a word instead, where the port does not count.
fn number(path: &Path) -> Option<u64> {
    let mut text = String::new();
    File::open(path).ok()?.take(DIGITS).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own, which is gone afterwards.
    struct Port(std::path::PathBuf);

    impl Port {
        fn new(name: &str) -> Port {
            let path = std::env::temp_dir().join(format!("uroce-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("hw_counters")).expect("a folder");
            Port(path)
        }

        fn file(&self, name: &str, text: &str) {
            fs::write(self.0.join("hw_counters").join(name), text).expect("a file");
        }

        fn counters(&self) -> (Vec<Counter>, Option<String>) {
            let Reply::Counters { counters, missing } = below(&self.0) else { panic!("counters") };
            (counters, missing)
        }
    }

    impl Drop for Port {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("it was there");
        }
    }

    #[test]
    fn numbers_are_read_and_nothing_else() {
        let port = Port::new("numbers");
        port.file("rcvd_pkts", "17\n");
        port.file("lifespan", "N/A (no PMA)\n");
        port.file("long", &"1".repeat(100));
        port.file("a name\u{1b}", "1\n");
        let counter = Counter { name: "hw_counters/rcvd_pkts".to_owned(), value: 17 };
        assert_eq!(port.counters(), (vec![counter], None));
    }

    #[test]
    fn who_has_no_counters_says_so() {
        let port = Port::new("none");
        let (counters, missing) = port.counters();
        assert!(counters.is_empty() && missing.is_some_and(|why| why.contains("counters")));
        let Reply::Counters { counters, missing } = of_port("no-such-device") else { panic!() };
        let why = missing.expect("there is no such device");
        assert!(counters.is_empty() && why.contains("/sys/class/infiniband/no-such-device"));
    }

    #[test]
    fn a_folder_without_an_end_is_read_up_to_the_limit() {
        let port = Port::new("many");
        (0..limits::COUNTERS + 10).for_each(|index| port.file(&format!("c{index}"), "1"));
        assert_eq!(port.counters().0.len(), limits::COUNTERS);
    }
}
