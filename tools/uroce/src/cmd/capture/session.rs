//! The loop of a capture.

use uroce_datapath::PcapBlocks;

use super::args::CaptureArgs;
use super::output::{CaptureFile, CaptureStop, FaultFiles};
use super::screen::Screen;
use super::trigger::TriggerWatch;
use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt::Interrupt;
use crate::live::{HAND_OVER, Live, Now, Stream, clock};

/// Where packets go.
#[derive(Debug)]
enum Sink {
    /// To the screen only.
    Screen,
    /// All to one file.
    File(CaptureFile),
    /// Those around a fault to a file for each.
    Faults(Box<FaultFiles>, Box<TriggerWatch>),
}

/// What came of a capture.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets of the link that were captured.
    pub captured: u64,
    /// Packets that the kernel had no room for.
    pub dropped: u64,
    /// Packets in files.
    pub written: u64,
    /// Names of the files.
    pub files: Vec<String>,
}

/// A capture that is under way.
#[derive(Debug)]
pub struct CaptureSession {
    stream: Stream,
    sink: Sink,
    screen: Option<Screen>,
    /// Descriptions of new interfaces, and the block of the frame that is handled.
    description: PcapBlocks,
    packet: PcapBlocks,
    /// Packets that the kernel had no room for, once the files have ended.
    dropped: u64,
}

impl CaptureSession {
    /// # Errors
    /// Exit 3 when the file cannot be made.
    pub fn new(
        args: &CaptureArgs,
        global: &Global,
        live: Live,
        interrupt: Interrupt,
    ) -> Result<Self, Failure> {
        let port = args.port(global);
        let sink = match &args.write {
            None => Sink::Screen,
            Some(name) if args.trigger.is_empty() => {
                Sink::File(CaptureFile::create(name, live.interfaces())?)
            }
            Some(name) => {
                let watch = Box::new(TriggerWatch::new(&args.trigger, port));
                Sink::Faults(Box::new(FaultFiles::new(name, args)), watch)
            }
        };
        let shown = args.write.is_none() || args.print;
        let screen = shown.then(|| Screen::new(port));
        let stream = Stream::new(live, interrupt, args.live.seconds, args.count);
        let [description, packet] = [PcapBlocks::default(), PcapBlocks::default()];
        Ok(CaptureSession { stream, sink, screen, description, packet, dropped: 0 })
    }

    /// Captures to the end.
    ///
    /// # Errors
    /// [`CaptureStop`] when it comes before its time.
    pub fn run(&mut self) -> Result<(), CaptureStop> {
        let ended = self.take_frames();
        self.screen.iter_mut().for_each(Screen::flush);
        let closed = self.close();
        ended.and(closed)
    }

    fn take_frames(&mut self) -> Result<(), CaptureStop> {
        while !self.is_complete() {
            match self.stream.now() {
                Now::Frame => self.take_frame()?,
                Now::Nothing => {
                    self.flush()?;
                    self.stream.wait()?;
                }
                Now::End => break,
            }
        }
        Ok(())
    }

    /// All that was asked for is there.
    fn is_complete(&self) -> bool {
        match &self.sink {
            // `| head` has seen enough; files are written until the end.
            Sink::Screen => crate::report::is_reader_gone(),
            Sink::File(_) => false,
            Sink::Faults(files, _) => files.is_complete(),
        }
    }

    fn take_frame(&mut self) -> Result<(), CaptureStop> {
        self.description.clear();
        let number = self.stream.frames() + 1;
        let Some(captured) = self.stream.next_captured(&mut self.description) else {
            return Ok(());
        };
        let time = captured.frame.time;
        let frame = captured.analyzed(number);
        if let Some(screen) = &mut self.screen {
            screen.handle_frame(&frame);
        }
        let fault = match &mut self.sink {
            Sink::Faults(_, watch) => watch.handle_frame(&frame),
            _ => None,
        };
        let comment = fault.as_deref().map(|fault| format!("trigger: {fault}"));
        self.packet.clear();
        self.packet.packet(&captured.record(comment.as_deref().as_slice()));
        let blocks = [self.description.bytes(), self.packet.bytes()];
        match &mut self.sink {
            Sink::Screen => {}
            Sink::File(file) => {
                file.add(blocks[0], 0)?;
                file.add(blocks[1], 1)?;
            }
            Sink::Faults(files, _) => {
                if files.is_due(time) {
                    let dropped = self.stream.dropped();
                    files.close(self.stream.interfaces(), dropped)?;
                }
                let begun = files.add(time, blocks, fault.is_some(), self.stream.interfaces())?;
                if let (Some(file), Some(fault)) = (begun, fault) {
                    eprintln!("uroce capture: {fault}: writing {}", file.display());
                }
            }
        }
        Ok(())
    }

    /// Shows and writes what waits, and closes what is over.
    fn flush(&mut self) -> Result<(), CaptureStop> {
        self.screen.iter_mut().for_each(Screen::flush);
        match &mut self.sink {
            Sink::Screen => {}
            Sink::File(file) => file.flush()?,
            Sink::Faults(files, _) => {
                files.flush()?;
                let dropped = self.stream.dropped();
                files.handle_dropped(dropped);
                // What passed a moment ago may still be with the kernel.
                if files.is_due(clock().saturating_sub(HAND_OVER)) {
                    files.close(self.stream.interfaces(), dropped)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the files.
    fn close(&mut self) -> Result<(), CaptureStop> {
        self.dropped = self.stream.dropped();
        let interfaces = self.stream.interfaces();
        match &mut self.sink {
            Sink::Screen => {}
            Sink::File(file) => file.end(interfaces, self.dropped)?,
            Sink::Faults(files, _) => files.close(interfaces, self.dropped)?,
        }
        Ok(())
    }

    /// Tells what is in the files.
    pub fn finish(self) -> Totals {
        let (captured, dropped) = (self.stream.frames(), self.dropped);
        let mut totals = Totals { captured, dropped, ..Totals::default() };
        match &self.sink {
            Sink::Screen => {}
            Sink::File(file) => {
                totals.written = file.packets();
                totals.files = vec![file.path().display().to_string()];
            }
            Sink::Faults(files, _) => {
                totals.written = files.packets();
                totals.files = files.names().map(|name| name.display().to_string()).collect();
            }
        }
        totals
    }
}
