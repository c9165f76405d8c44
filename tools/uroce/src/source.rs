//! Where frames come from: a capture file, stdin, or interfaces of this machine.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uroce_analyze::quantity::count;
use uroce_analyze::report::{Analysis, AnalysisConfig, Known, Seen};
use uroce_analyze::{CaptureError, CaptureReader, DissectorConfig, Frame};

use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::live::{Live, LiveArgs, Now, Stream};

/// Options that say where frames come from.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// A pcap or pcapng file, compressed with gzip or not; - is stdin
    #[arg(
        value_name = "FILE",
        required_unless_present = "interfaces",
        conflicts_with = "interfaces"
    )]
    file: Option<String>,
    #[command(flatten)]
    live: LiveArgs,
}

impl SourceArgs {
    /// What the source is called: a file, `-`, or the names of interfaces.
    pub fn name(&self) -> String {
        self.file.clone().unwrap_or_else(|| self.live.interfaces.join(", "))
    }

    /// What it can be read again by; `-` if it cannot.
    pub fn file(&self) -> &str {
        self.file.as_deref().unwrap_or("-")
    }

    /// What the whole capture tells, if it can be read twice; nothing otherwise.
    ///
    /// # Errors
    /// The user wants to stop.
    pub fn known(&self, port: u16, interrupt: &Interrupt) -> Result<Known, Failure> {
        known(self.file(), port, interrupt)
    }

    /// The file `output` is the one that is read.
    pub fn is(&self, output: &Path) -> bool {
        self.file.as_ref().is_some_and(|file| is_same(file, output))
    }

    /// Begins to read, or to capture, which `command` says. It ends when the user wants to stop, and after `most` frames.
    ///
    /// # Errors
    /// Exit 2 if there is no such file, it is no capture, or options do not go together; exit 3 if it may not be read, without CAP_NET_RAW, and
    /// without the interface.
    pub fn open(
        &self,
        command: &str,
        global: &Global,
        interrupt: &Interrupt,
        most: Option<u64>,
    ) -> Result<Capture, Failure> {
        if let Some(file) = &self.file {
            return match self.live.how() {
                Some(option) => Err(Failure::usage(format!(
                    "{option} is about a capture, and {file} is a file"
                ))
                .help("capture with --interface, or leave it out")),
                None => Ok(Capture { most, ..open(file, interrupt)? }),
            };
        }
        let live = Live::open(self.live.config(global.roce_port()))?;
        self.live.tell_start(command);
        let stream = Stream::new(live, interrupt.clone(), self.live.seconds, most);
        Ok(Capture {
            frames: FrameSource::Link(Box::new(stream)),
            interrupt: interrupt.clone(),
            name: self.name(),
            most: None,
            taken: 0,
        })
    }
}

/// A capture that is being read, or made, until the user wants to stop.
pub struct Capture {
    frames: FrameSource,
    interrupt: Interrupt,
    name: String,
    /// Frames that are taken at most.
    most: Option<u64>,
    taken: u64,
}

/// Where its frames come from.
enum FrameSource {
    /// A file, or stdin.
    Bytes(Box<CaptureReader<Box<dyn Read>>>),
    /// Interfaces of this machine.
    Link(Box<Stream>),
}

/// What ended a capture early.
#[derive(Debug)]
pub struct EarlyEnd {
    /// In words, without the name of the capture.
    pub what: String,
    /// What to tell the user.
    pub failure: Failure,
}

impl Capture {
    /// The next frame, which is waited for; `None` at the end, and where the user wants to stop, which may be within a
    /// record.
    ///
    /// # Errors
    /// The capture is damaged or cannot be read on, or its interface is gone.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, EarlyEnd> {
        if self.most.is_some_and(|most| self.taken >= most) {
            return Ok(None);
        }
        self.taken += 1;
        match &mut self.frames {
            FrameSource::Link(stream) => next_of_link(stream),
            FrameSource::Bytes(reader) => match reader.next_frame() {
                Err(_) if self.interrupt.is_set() => Ok(None),
                frame => frame.map_err(|error| EarlyEnd {
                    failure: unreadable(&self.name, &error),
                    what: error.to_string(),
                }),
            },
        }
    }

    /// The next frame can be given without waiting for it.
    pub fn is_next_buffered(&mut self) -> bool {
        match &mut self.frames {
            FrameSource::Bytes(reader) => reader.is_next_buffered(),
            FrameSource::Link(stream) => stream.now() != Now::Nothing,
        }
    }

    /// Packets that are missing, as a file or the kernel says. What the kernel had no room for is said on stderr.
    pub fn tell_lost(&mut self) -> u64 {
        let stream = match &mut self.frames {
            FrameSource::Bytes(reader) => return reader.lost_packets(),
            FrameSource::Link(stream) => stream,
        };
        let dropped = stream.dropped();
        if dropped > 0 {
            let packets = count(dropped, "packet");
            eprintln!(
                "note: the kernel dropped {packets} of this capture: a larger --buffer or a smaller --snaplen drops less"
            );
        }
        dropped
    }
}

/// Waits for the next frame of interfaces.
fn next_of_link(stream: &mut Stream) -> Result<Option<Frame<'_>>, EarlyEnd> {
    loop {
        match stream.now() {
            Now::Frame => return Ok(stream.next_frame()),
            Now::End => return Ok(None),
            Now::Nothing => {
                stream.wait().map_err(|failure| EarlyEnd { what: failure.what.clone(), failure })?
            }
        }
    }
}

/// How long a silent pipe is waited for before Ctrl-C is looked for, in nanoseconds.
const POLL_TIMEOUT_NS: i64 = 100_000_000;

/// Opens the capture in the file `name`, or on stdin if it is `-`. It ends when the user wants to stop.
///
/// # Errors
/// Exit 2 if there is no such file, or it is no capture; exit 3 if it may not be read.
pub fn open(name: &str, interrupt: &Interrupt) -> Result<Capture, Failure> {
    match CaptureReader::new(bytes(name, interrupt)?) {
        Ok(reader) => Ok(Capture {
            frames: FrameSource::Bytes(Box::new(reader)),
            interrupt: interrupt.clone(),
            name: name.to_owned(),
            most: None,
            taken: 0,
        }),
        Err(_) if interrupt.is_set() => Err(Failure::interrupted()),
        Err(error) => Err(unreadable(name, &error)),
    }
}

/// What is written to `output` would replace the capture `source`, which is a name, or `-` for stdin.
pub fn is_same(source: &str, output: &Path) -> bool {
    // Names do not tell: the shell has none for stdin, and a file may have several.
    let read = if source == "-" { stdin_metadata() } else { std::fs::metadata(source) };
    let (Ok(read), Ok(written)) = (read, std::fs::metadata(output)) else { return false };
    read.is_file() && (read.dev(), read.ino()) == (written.dev(), written.ino())
}

fn stdin_metadata() -> io::Result<std::fs::Metadata> {
    File::from(io::stdin().as_fd().try_clone_to_owned()?).metadata()
}

/// Gives all frames of `capture` to `analysis`, and tells at the end what was not captured; calls `packet` for each packet, and `frame` behind the
/// packets of each frame. What ends the capture early is told to the analysis as well.
///
/// # Errors
/// The capture is damaged or cannot be read on, or `frame` failed. What came before was given.
pub fn analyse(
    capture: &mut Capture,
    analysis: &mut Analysis,
    packet: &mut dyn FnMut(&Frame<'_>, Seen<'_>),
    frame: &mut dyn FnMut(&Frame<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let end = loop {
        match capture.next_frame() {
            Ok(None) => break Ok(()),
            Ok(Some(found)) => {
                analysis.handle_frame(&found, &mut |seen| packet(&found, seen));
                frame(&found)?;
            }
            Err(broken) => {
                analysis.handle_error(&broken.what);
                break Err(broken.failure);
            }
        }
    };
    analysis.handle_not_captured(capture.tell_lost());
    end
}

/// What the whole capture `name` tells, if it can be read twice; nothing for `-`. What is wrong with the
/// file is told when it is read again.
///
/// # Errors
/// The user wants to stop.
pub fn known(name: &str, port: u16, interrupt: &Interrupt) -> Result<Known, Failure> {
    if !is_rewindable(name) {
        return Ok(Known::default());
    }
    let dissector = DissectorConfig { port };
    let mut analysis = Analysis::new(AnalysisConfig { dissector, ..AnalysisConfig::default() });
    if let Ok(mut capture) = open(name, interrupt) {
        let _ = analyse(&mut capture, &mut analysis, &mut |_, _| {}, &mut |_| Ok(()));
    }
    match interrupt.is_set() {
        true => Err(Failure::interrupted()),
        false => Ok(Known::from(&analysis.finish(name))),
    }
}

/// The same capture can be read again.
fn is_rewindable(name: &str) -> bool {
    name != "-" && std::fs::metadata(name).is_ok_and(|data| data.is_file())
}

/// What stands in the way of reading on.
fn unreadable(name: &str, error: &CaptureError) -> Failure {
    let name = if name == "-" { "stdin" } else { name };
    let what = format!("{name}: {error}");
    match error {
        CaptureError::Io { .. } => Failure::environment(what),
        CaptureError::NotACapture { .. } => Failure::usage(what)
            .help("give a pcap or pcapng file (may be compressed with gzip), or - for stdin"),
        _ => Failure::test(what)
            .help("the file is damaged there; everything before that place was read"),
    }
}

fn bytes(name: &str, interrupt: &Interrupt) -> Result<Box<dyn Read>, Failure> {
    let interrupt = interrupt.clone();
    if name != "-" {
        return Ok(Box::new(Interruptible { source: file(name)?, interrupt }));
    }
    let source = io::stdin();
    if source.is_terminal() {
        return Err(Failure::usage("stdin is a terminal, not a capture")
            .help("pipe a capture in: `tcpdump -i eth0 -U -w - udp port 4791 | uroce analyze -`"));
    }
    // Without the buffer of `Stdin`: what is in it would be there while the pipe itself is silent.
    let pipe = source
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| Failure::environment(format!("stdin cannot be read: {error}")))?;
    Ok(Box::new(Interruptible { source: File::from(pipe), interrupt }))
}

/// Bytes that end when the user wants to stop, also while a pipe is silent.
struct Interruptible<R> {
    source: R,
    interrupt: Interrupt,
}

impl<R: Read + AsFd> Read for Interruptible<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.interrupt.is_set() {
            let mut wanted = [PollFd::new(&self.source, PollFlags::IN)];
            let timeout = Timespec { tv_sec: 0, tv_nsec: POLL_TIMEOUT_NS };
            match poll(&mut wanted, Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return self.source.read(buffer),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(0)
    }
}

fn file(name: &str) -> Result<File, Failure> {
    File::open(name).map_err(|error| {
        let what = format!("cannot open {name}: {error}");
        match error.kind() {
            io::ErrorKind::NotFound => Failure::usage(what),
            _ => Failure::environment(what),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::failure::Exit;

    fn refused(name: &str) -> Failure {
        open(name, &Interrupt::default()).err().expect("it is no capture")
    }

    #[test]
    fn what_is_no_capture_is_refused_with_its_name() {
        assert_eq!(refused("/no/such/file").exit, Exit::Usage);
        assert_eq!(refused(env!("CARGO_MANIFEST_DIR")).exit, Exit::Environment);
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let failure = refused(manifest);
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.what.starts_with(manifest), "{failure}");
    }

    #[test]
    fn whoever_stops_reads_no_more() {
        let (reader, _writer) = io::pipe().expect("a pipe");
        let interrupt = Interrupt::default();
        let mut source = Interruptible { source: reader, interrupt: interrupt.clone() };
        let waiting = std::thread::spawn(move || source.read(&mut [0; 8]));
        interrupt.set();
        assert_eq!(waiting.join().expect("no panic").expect("no error"), 0);
    }

    #[test]
    fn a_stop_within_a_record_is_no_damage() {
        let bytes = include_bytes!("../../../pcaps/rc-send.pcap");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(&bytes[..bytes.len() - 5]).expect("room");
        let interrupt = Interrupt::default();
        let source = Interruptible { source: reader, interrupt: interrupt.clone() };
        let reader = CaptureReader::new(Box::new(source) as Box<dyn Read>).expect("a capture");
        let frames = FrameSource::Bytes(Box::new(reader));
        let (name, interrupted) = ("-".to_owned(), interrupt.clone());
        let mut capture = Capture { frames, interrupt: interrupted, name, most: None, taken: 0 };
        let mut frames = 0;
        while capture.is_next_buffered() {
            frames += u32::from(capture.next_frame().expect("no damage").is_some());
        }
        interrupt.set();
        assert!(frames > 0 && capture.next_frame().expect("no damage").is_none(), "{frames}");
    }

    #[test]
    fn only_a_file_can_be_read_again() {
        assert!(is_rewindable(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")));
        assert!(!is_rewindable("-") && !is_rewindable("/dev/null"));
    }
}
