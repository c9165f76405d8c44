//! The Wireshark profile of docs/wireshark: tshark takes every column, colour and filter of it, and the columns
//! have what the headers of a capture have.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NAME: &str = "RoCEv2";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_owned()
}

fn profile_file(name: &str) -> String {
    let path = root().join("docs/wireshark/profile").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A configuration folder of Wireshark that holds the profile, removed at the end.
struct Configuration(PathBuf);

impl Configuration {
    /// `None` without tshark, which CI must have.
    fn new(test: &str) -> Option<Self> {
        if Command::new("tshark").arg("--version").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "CI must have tshark");
            println!("skipped: there is no tshark here");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("uroce-{test}-{}", std::process::id()));
        let profile = folder.join("profiles").join(NAME);
        std::fs::create_dir_all(&profile).expect("a temporary folder");
        let files = std::fs::read_dir(root().join("docs/wireshark/profile")).expect("the profile");
        for file in files.map(|entry| entry.expect("readable").path()) {
            let name = file.file_name().expect("a file");
            std::fs::copy(&file, profile.join(name)).expect("a copy");
        }
        Some(Self(folder))
    }

    /// tshark with the profile, over a capture of the repository.
    fn tshark(&self, capture: &str, arguments: &[&str]) -> Output {
        Command::new("tshark")
            .env("WIRESHARK_CONFIG_DIR", &self.0)
            .args(["-C", NAME, "-r"])
            .arg(root().join("pcaps").join(capture))
            .args(arguments)
            .output()
            .expect("tshark")
    }

    /// What tshark says about a filter that it refuses.
    fn refusal(&self, filter: &str) -> Option<String> {
        let output = self.tshark("fetch-add.pcap", &["-Y", filter]);
        (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Drop for Configuration {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Lines of a file of the profile, without comments.
fn lines(file: &str) -> Vec<String> {
    let all = profile_file(file);
    let kept = all.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    kept.map(str::to_owned).collect()
}

#[test]
fn columns_have_what_the_headers_have() {
    let Some(configuration) = Configuration::new("columns") else { return };
    let row = |capture: &str, frame: &str| {
        let filter = format!("frame.number == {frame}");
        let output = configuration.tshark(capture, &["-Y", &filter]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let write = row("write-lat.pcap", "1");
    for part in ["RDMA WRITE First", "0xce8b07", "1644548", "0x00005598d604c3c0", "0xba8c6b90"] {
        assert!(write.contains(part), "{part}: {write}");
    }
    assert!(write.contains("5000 (0x00001388)"), "{write}");
    let nak = row("loss.pcap", "123");
    assert!(nak.contains("Acknowledge 0x000018 13259652 False Nak,PSN Sequence Error 4"), "{nak}");
    let asks = row("write-lat.pcap", "2");
    assert!(asks.contains("0xce8b07 1644549 True"), "{asks}");
}

#[test]
fn every_column_is_a_field_that_exists() {
    let Some(_configuration) = Configuration::new("fields") else { return };
    let output = Command::new("tshark").args(["-G", "fields"]).output().expect("tshark");
    let known = text(&output.stdout);
    let is_known = |name: &str| known.lines().any(|line| line.split('\t').nth(2) == Some(name));
    let preferences = profile_file("preferences");
    let columns: Vec<_> = preferences.split("%Cus:").skip(1).collect();
    assert!(columns.len() >= 10, "{columns:?}");
    for column in columns {
        let fields = column.split(':').next().expect("a field");
        for field in fields.split(" or ") {
            assert!(is_known(field), "{field}");
        }
    }
}

#[test]
fn no_filter_is_refused() {
    let Some(configuration) = Configuration::new("filters") else { return };
    let saved = lines("dfilters");
    let saved = saved.iter().filter_map(|line| line.strip_prefix('"')?.split_once("\" "));
    let buttons = lines("dfilter_buttons");
    let buttons = buttons.iter().map(|line| line.trim_matches('"').split("\",\"").nth(2));
    let colours = lines("colorfilters");
    let colours = colours.iter().map(|line| line.split('@').nth(2));
    let all: Vec<String> = saved
        .map(|(_, filter)| Some(filter))
        .chain(buttons)
        .chain(colours)
        .map(|filter| filter.expect("a filter on each line").to_owned())
        .collect();
    assert!(all.len() >= 30, "{}", all.len());
    // One start of tshark for all of them; which it is only if one is refused.
    let any = all.iter().map(|filter| format!("({filter})")).collect::<Vec<_>>().join(" || ");
    if configuration.refusal(&any).is_some() {
        let refused =
            |filter: &String| configuration.refusal(filter).map(|why| (filter.clone(), why));
        panic!("{:?}", all.iter().filter_map(refused).collect::<Vec<_>>());
    }
    assert!(configuration.refusal("infiniband.no_such_field == 1").is_some());
}

#[test]
fn colours_and_heuristics_load() {
    let Some(configuration) = Configuration::new("colours") else { return };
    // tshark reads the colours only where it can show them.
    let output = Command::new("tshark")
        .env("WIRESHARK_CONFIG_DIR", &configuration.0)
        .env("COLORTERM", "truecolor")
        .args(["-C", NAME, "--color", "-r"])
        .arg(root().join("pcaps/rc-send-ipv6.pcap"))
        .output()
        .expect("tshark");
    let said = text(&output.stderr);
    assert!(output.status.success() && !said.contains("compile"), "{said}");
    assert!(!said.to_lowercase().contains("warning"), "{said}");
    // A payload that tshark takes for RPC without the profile.
    assert!(!text(&output.stdout).contains("Malformed"), "{}", text(&output.stdout));
}
