//! Nothing that a file, an interface or a user gives makes a reader panic, hang or grow without bound.

use std::io::Read;
use std::path::Path;

use uroce_analyze::report::{Analysis, AnalysisConfig};
use uroce_analyze::view::{ViewConfig, Viewer};
use uroce_analyze::{
    CaptureReader, DissectorConfig, Filter, Frame, FrameRange, LadderBuilder, LadderConfig,
    LinkType, Mark, OpcodeFilter, PacketSummary, PsnRange, Timestamp, fields, parse_qpn,
};

use crate::capture::{self, captured};
use crate::mutation::{Random, each};

/// Every kind of link that a capture can have.
const LINKS: [u32; 9] = [0, 1, 101, 108, 113, 197, 247, 276, 999];

fn files(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files =
        std::fs::read_dir(folder).expect("captures").map(|file| file.expect("a file").path());
    let mut files: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).expect("a capture")).collect()
}

fn pcaps() -> Vec<Vec<u8>> {
    // Each input is read whole: the first packets of a file serve as well as all.
    files("../../pcaps", ".pcap").into_iter().map(|bytes| head(bytes, 8000)).collect()
}

fn head(mut bytes: Vec<u8>, most: usize) -> Vec<u8> {
    bytes.truncate(most);
    bytes
}

fn pcapngs() -> Vec<Vec<u8>> {
    let unpacked = files("tests/captures", ".gz").into_iter().map(|packed| {
        let mut bytes = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&packed[..]);
        reader.read_to_end(&mut bytes).expect("a good file");
        head(bytes, 8000)
    });
    unpacked.chain([capture::every_header()]).collect()
}

/// Frames of a capture, as far as it can be read.
fn frames(bytes: &[u8], look: &mut dyn FnMut(&Frame<'_>)) {
    let Ok(mut reader) = CaptureReader::new(bytes) else { return };
    while let Ok(Some(frame)) = reader.next_frame() {
        look(&frame);
    }
}

/// All that is done with the frames of a capture.
#[derive(Debug)]
struct All {
    analysis: Analysis,
    viewer: Viewer,
    ladder: LadderBuilder,
    frames: usize,
}

impl All {
    fn new() -> Self {
        let config = ViewConfig { compress: false, ..ViewConfig::default() };
        Self {
            analysis: Analysis::new(AnalysisConfig { slowest_messages: 3, ..Default::default() }),
            viewer: Viewer::new(config, DissectorConfig::default(), Filter::default()),
            ladder: LadderBuilder::new(LadderConfig::default()),
            frames: 0,
        }
    }

    fn take(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        let (analysis, ladder) = (&mut self.analysis, &mut self.ladder);
        analysis.handle_frame(frame, &mut |seen| {
            assert!(PacketSummary::new(seen.packet, seen.payload).to_string().len() < 4000);
            ladder.handle_packet(seen.packet, Mark::default());
        });
        self.viewer.handle_frame(frame);
        for layer in fields(frame, &DissectorConfig::default()) {
            layer.visit(&mut |field| assert!(field.range.end <= frame.data.len(), "{field:?}"));
        }
    }

    fn finish(self) {
        let report = self.analysis.finish("mutated");
        assert!(report.to_text(Default::default()).len() < 1_000_000);
        serde_json::to_string(&report).expect("JSON");
        let mut page = Vec::new();
        self.viewer.finish("mutated", &[]).write_to(&mut page).expect("memory");
        if let Some(ladder) = self.ladder.finish() {
            assert!(
                ladder.to_svg().starts_with('<') && !ladder.to_text(Default::default()).is_empty()
            );
        }
    }
}

fn all(bytes: &[u8]) {
    let mut all = All::new();
    frames(bytes, &mut |frame| all.take(frame));
    assert!(all.frames <= bytes.len(), "no frame is made of nothing");
    all.finish();
}

#[test]
fn pcap() {
    each(150, &pcaps(), |bytes, _| all(bytes));
}

#[test]
fn pcapng() {
    each(150, &pcapngs(), |bytes, _| all(bytes));
}

#[test]
fn gzip() {
    let seeds = files("tests/captures", ".gz");
    each(300, &seeds, |bytes, _| frames(bytes, &mut |_| {}));
}

#[test]
fn frames_of_every_link() {
    let mut seeds = Vec::new();
    for bytes in pcaps().iter().chain(&pcapngs()) {
        frames(bytes, &mut |frame| seeds.push(frame.data.to_vec()));
    }
    let mut all = All::new();
    let mut number = 0;
    each(3000, &seeds, |bytes, random| {
        number += 1;
        all.take(&frame(bytes, number, random));
        if number % 500 == 0 {
            std::mem::replace(&mut all, All::new()).finish();
        }
    });
    all.finish();
}

fn frame<'a>(data: &'a [u8], number: u64, random: &mut Random) -> Frame<'a> {
    let time = Timestamp::from_nanos(random.next() >> random.below(64));
    let link_type = LinkType::from_number(LINKS[random.below(LINKS.len())]);
    let original_len = (data.len() + random.below(3)) as u32;
    Frame { number, time, original_len, ..captured(data, link_type) }
}

/// Words of the filters; what one of them takes it also writes, or it says what is wrong.
#[test]
fn words_of_filters() {
    let words =
        ["0x11", "17", "write-first", "rc-write", "0x0a", "0xfffff0..0x10", "40..60", "nak", "cm"];
    let seeds: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    each(20_000, &seeds, |bytes, _| {
        let text = String::from_utf8_lossy(bytes);
        let said = [
            text.parse::<OpcodeFilter>().err().map(|error| error.to_string()),
            text.parse::<PsnRange>().err().map(|error| error.to_string()),
            text.parse::<FrameRange>().err().map(|error| error.to_string()),
            parse_qpn(&text).err().map(|error| error.to_string()),
        ];
        assert!(said.iter().flatten().all(|error| !error.is_empty()), "{text}");
    });
}
