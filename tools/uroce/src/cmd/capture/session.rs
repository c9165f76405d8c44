//! The loop of a capture.

use super::args::CaptureArgs;
use super::output::{CaptureFile, FaultFiles, Stop};
use super::screen::Screen;
use super::trigger::Watch;
use crate::cli::Global;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::live::Live;
use std::time::{Duration, Instant, SystemTime};
use uroce_datapath::PcapBlocks;

/// How soon the end is noticed while nothing passes.
const LOOK: Duration = Duration::from_millis(100);

/// Frames between two looks at the clock.
const FRAMES_AT_A_TIME: usize = 4096;

/// The kernel hands over what it has after so long at the latest.
const HAND_OVER: Duration = Duration::from_millis(50);

/// Where packets go.
#[derive(Debug)]
enum Sink {
    /// To the screen only.
    Screen,
    /// All to one file.
    File(CaptureFile),
    /// Those around a fault to a file for each.
    Faults(Box<FaultFiles>, Box<Watch>),
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
pub struct Session {
    live: Live,
    interrupt: Interrupt,
    sink: Sink,
    screen: Option<Screen>,
    end: Option<Instant>,
    /// Frames to capture at most.
    most: u64,
    frames: u64,
    /// Descriptions of new interfaces, and the block of the frame that is handled.
    description: PcapBlocks,
    packet: PcapBlocks,
}

impl Session {
    /// # Errors
    /// Exit 3 when the file cannot be made.
    pub fn new(
        args: &CaptureArgs,
        global: &Global,
        live: Live,
        interrupt: Interrupt,
    ) -> Result<Self, Failure> {
        let port = args.port.unwrap_or(global.roce_port);
        let sink = match &args.write {
            None => Sink::Screen,
            Some(name) if args.trigger.is_empty() => {
                Sink::File(CaptureFile::create(name, live.interfaces())?)
            }
            Some(name) => {
                let watch = Box::new(Watch::new(&args.trigger, port));
                Sink::Faults(Box::new(FaultFiles::new(name, args)), watch)
            }
        };
        let shown = args.write.is_none() || args.print;
        let screen = shown.then(|| Screen::new(port));
        let end = args.seconds.and_then(|time| Instant::now().checked_add(time));
        let most = args.count.unwrap_or(u64::MAX);
        let [description, packet] = [PcapBlocks::default(), PcapBlocks::default()];
        Ok(Session { live, interrupt, sink, screen, end, most, frames: 0, description, packet })
    }

    /// Captures to the end.
    ///
    /// # Errors
    /// [`Stop`] when it comes before its time.
    pub fn run(&mut self) -> Result<(), Stop> {
        while !self.is_over() {
            if self.take_frames()? == 0 {
                self.flush()?;
                let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
                self.live.wait(left.map_or(LOOK, |left| left.min(LOOK)))?;
            }
        }
        let rest = self.take_rest();
        self.screen.iter_mut().for_each(Screen::flush);
        rest?;
        self.close()
    }

    fn is_over(&self) -> bool {
        let complete = matches!(&self.sink, Sink::Faults(files, _) if files.is_complete());
        let late = self.end.is_some_and(|end| Instant::now() >= end);
        // `| head` has seen enough; files are written until the end.
        let unread = matches!(self.sink, Sink::Screen) && crate::report::is_reader_gone();
        complete || late || unread || self.frames >= self.most || self.interrupt.is_set()
    }

    /// Frames that passed before the end, and are still with the kernel.
    fn take_rest(&mut self) -> Result<(), Stop> {
        let end = now();
        let mut last = Duration::ZERO;
        while last <= end && self.frames < self.most {
            match self.take_frame()? {
                Some(time) => last = time,
                None if now() > end + HAND_OVER => break,
                None => self.live.wait(HAND_OVER)?,
            }
        }
        Ok(())
    }

    /// Some frames; returns how many.
    fn take_frames(&mut self) -> Result<usize, Stop> {
        let mut taken = 0;
        while taken < FRAMES_AT_A_TIME && self.frames < self.most && self.take_frame()?.is_some() {
            taken += 1;
        }
        self.screen.iter_mut().for_each(Screen::flush);
        Ok(taken)
    }

    /// The next frame, if there is one; returns when it passed.
    fn take_frame(&mut self) -> Result<Option<Duration>, Stop> {
        self.description.clear();
        let Some(captured) = self.live.next_frame(&mut self.description) else { return Ok(None) };
        self.frames += 1;
        let time = captured.frame.time;
        let frame = captured.analyzed(self.frames);
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
                let begun = files.add(time, blocks, fault.is_some(), self.live.interfaces())?;
                if let (Some(file), Some(fault)) = (begun, fault) {
                    eprintln!("uroce capture: {fault}: writing {}", file.display());
                }
            }
        }
        Ok(Some(time))
    }

    /// Writes what waits, and closes what is over.
    fn flush(&mut self) -> Result<(), Stop> {
        match &mut self.sink {
            Sink::Screen => {}
            Sink::File(file) => file.flush()?,
            Sink::Faults(files, _) => {
                files.flush()?;
                // What passed a moment ago may still be with the kernel.
                files.close_before(now().saturating_sub(HAND_OVER))?;
            }
        }
        Ok(())
    }

    /// Writes everything that waits.
    fn close(&mut self) -> Result<(), Stop> {
        match &mut self.sink {
            Sink::Screen => {}
            Sink::File(file) => file.flush()?,
            Sink::Faults(files, _) => files.close()?,
        }
        Ok(())
    }

    /// Ends the files and tells what is in them. What fails here failed in `run` before.
    pub fn finish(mut self) -> Totals {
        let dropped = self.live.counts().dropped;
        let mut totals = Totals { captured: self.frames, dropped, ..Totals::default() };
        match &mut self.sink {
            Sink::Screen => {}
            Sink::File(file) => {
                let _ = file.flush();
                totals.written = file.packets();
                totals.files = vec![file.path().display().to_string()];
            }
            Sink::Faults(files, _) => {
                let _ = files.close();
                totals.written = files.packets();
                totals.files = files.names().map(|name| name.display().to_string()).collect();
            }
        }
        totals
    }
}

/// The time as the kernel stamps frames.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
