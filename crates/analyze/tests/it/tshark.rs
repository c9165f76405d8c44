//! Every field that tshark knows, too, has the value that tshark gives it. Skipped where there is no
//! tshark; CI has one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use uroce_analyze::{CaptureReader, DissectorConfig, Layer, fields};

use crate::capture;

/// What tshark is known to read otherwise; docs/dissect.md says why.
const DIFFERENT: [&str; 10] = [
    // It reads both at other bits than they are at.
    "infiniband.cm.req.prim_flowlabel",
    "infiniband.cm.req.prim_pktrate",
    "infiniband.cm.req.alt_flowlabel",
    "infiniband.cm.req.alt_pktrate",
    // It writes the GIDs of the alternate path as bytes, those of the primary one as addresses.
    "infiniband.cm.req.alt_localgid",
    "infiniband.cm.req.alt_remotegid",
    // It is the whole payload here; tshark gives it to whatever it takes it for.
    "infiniband.payload",
    // Empty in tshark unless it takes a message apart.
    "infiniband.mad.data",
    // It looks for the header of RD 8 bytes behind its place.
    "infiniband.rdeth",
    "infiniband.rdeth.eecnxt",
];

/// Values by name, of one frame.
type Values = BTreeMap<String, Vec<String>>;

fn tshark(arguments: &[&str]) -> Option<String> {
    let output = Command::new("tshark").args(arguments).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Names of all fields that tshark has.
fn names_of_tshark() -> Option<BTreeSet<String>> {
    let all = tshark(&["-G", "fields"])?;
    let name = |line: &str| line.split('\t').nth(2).map(str::to_owned);
    Some(all.lines().filter(|line| line.starts_with("F\t")).filter_map(name).collect())
}

fn ours(path: &Path) -> Vec<Values> {
    let file = std::fs::File::open(path).expect("it is there");
    let mut reader = CaptureReader::new(file).expect("a capture");
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().expect("a good capture") {
        frames.push(values(&fields(&frame, &DissectorConfig::default())));
    }
    frames
}

fn values(layers: &[Layer]) -> Values {
    let mut values = Values::new();
    for layer in layers {
        layer.visit(&mut |field| {
            values.entry(field.name.to_owned()).or_default().push(field.value.clone());
        });
    }
    values
}

fn theirs(path: &Path, names: &[&String]) -> Vec<Values> {
    let path = path.display().to_string();
    let mut arguments = vec!["-r", &path, "-T", "fields", "-E", "aggregator=;"];
    names.iter().for_each(|name| arguments.extend(["-e", name.as_str()]));
    let output = tshark(&arguments).expect("it ran before");
    let row = |line: &str| {
        let cells = line.split('\t').map(|cell| cell.split(';').map(str::to_owned).collect());
        names.iter().map(|name| (*name).clone()).zip(cells).collect()
    };
    output.lines().map(row).collect()
}

/// Compares all frames of a capture; how many values were the same.
fn compare(path: &Path, known: &BTreeSet<String>) -> usize {
    let ours = ours(path);
    let all: BTreeSet<&String> = ours.iter().flat_map(|frame| frame.keys()).collect();
    let names: Vec<&String> = all
        .into_iter()
        .filter(|name| known.contains(*name) && !DIFFERENT.contains(&name.as_str()))
        .collect();
    let theirs = theirs(path, &names);
    assert_eq!(ours.len(), theirs.len(), "{path:?}");
    let (mut same, mut different) = (0, Vec::new());
    for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        for name in &names {
            let (Some(ours), Some(theirs)) = (ours.get(*name), theirs.get(*name)) else {
                continue;
            };
            if theirs.iter().all(String::is_empty) || is_bth_of_rd(name, ours) {
                continue;
            }
            // It names some headers twice: the whole one, and its only field.
            if without_repetition(ours) == without_repetition(theirs) {
                same += 1;
            } else {
                different.push(format!("frame {}: {name} {ours:?}, tshark {theirs:?}", number + 1));
            }
        }
    }
    assert!(different.is_empty(), "{path:?}:\n{}", different.join("\n"));
    same
}

/// It counts the header of RD, and 4 bytes more, to the BTH.
fn is_bth_of_rd(name: &str, value: &[String]) -> bool {
    name == "infiniband.bth" && value.iter().any(|value| value.starts_with(['4', '5']))
}

fn without_repetition(values: &[String]) -> Vec<&String> {
    let mut values: Vec<_> = values.iter().collect();
    values.dedup();
    values
}

#[test]
fn fields_have_the_values_of_tshark() {
    let Some(known) = names_of_tshark() else {
        assert!(std::env::var_os("CI").is_none(), "CI must have tshark");
        eprintln!("skipped: there is no tshark here");
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pcaps");
    let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("every-header.pcapng");
    std::fs::write(&made, capture::every_header()).expect("the folder is ours");
    let golden = std::fs::read_dir(folder)
        .expect("it is there")
        .map(|entry| entry.expect("it can be listed").path());
    let captures: Vec<_> = golden
        .filter(|path| path.extension().is_some_and(|end| end == "pcap"))
        .chain([made])
        .collect();
    for path in captures {
        let same = compare(&path, &known);
        assert!(same > 200, "{path:?}: only {same} values compared");
    }
}
