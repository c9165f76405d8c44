//! RoCE as it passes on interfaces of this machine.

mod args;
mod interfaces;
mod stream;

use std::io;
use std::time::Duration;

pub use args::{LiveArgs, seconds};
pub use interfaces::Interfaces;
use rustix::io::Errno;
pub use stream::{HAND_OVER, Now, Stream, clock};
use uroce_analyze::{Direction, Frame, LinkType, Timestamp};
use uroce_datapath::{PcapBlocks, PcapRecord};
use uroce_packet::capture::{
    CaptureConfig, CaptureCounts, CaptureError, CaptureSocket, CapturedFrame, interface_exists,
};

use crate::failure::Failure;

/// A capture that is under way.
#[derive(Debug)]
pub struct Live {
    socket: CaptureSocket,
    config: CaptureConfig,
    interfaces: Interfaces,
}

/// A frame, and the number that its interface has in this capture.
#[derive(Debug)]
pub struct Captured<'a> {
    /// The frame.
    pub frame: CapturedFrame<'a>,
    /// Number of its interface; the first one is 0.
    pub interface: u32,
}

impl Live {
    /// Begins to capture.
    ///
    /// # Errors
    /// Exit 3 without CAP_NET_RAW, and if there is no such interface.
    pub fn open(config: CaptureConfig) -> Result<Live, Failure> {
        let socket = CaptureSocket::open(&config).map_err(|error| refused(&error))?;
        let interfaces = Interfaces::new(config.snap_len);
        Ok(Live { socket, config, interfaces })
    }

    /// There is a frame now.
    pub fn is_ready(&mut self) -> bool {
        self.socket.is_ready()
    }

    /// The next frame, if there is one now. An interface that frames had not come from before is described in
    /// `blocks`.
    pub fn next_frame(&mut self, blocks: &mut PcapBlocks) -> Option<Captured<'_>> {
        let frame = self.socket.next_frame()?;
        let interface = self.interfaces.number_of(&frame, blocks);
        Some(Captured { frame, interface })
    }

    /// Waits until there is a frame, at most that long.
    ///
    /// # Errors
    /// Exit 3 if the only interface is gone, or the kernel refuses to wait.
    pub fn wait(&self, most: Duration) -> Result<(), Failure> {
        match self.socket.wait(most) {
            Ok(_) => Ok(()),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NETDOWN) => self.tell_down(),
            Err(error) => Err(Failure::environment(format!("cannot wait for packets: {error}"))),
        }
    }

    fn tell_down(&self) -> Result<(), Failure> {
        let name = self.config.interfaces.first().map_or("-", String::as_str);
        if !interface_exists(name) {
            return Err(Failure::environment(format!("the interface {name} is gone")).help(
                "what came before is captured; without -i all interfaces are, also new ones",
            ));
        }
        eprintln!("note: {name} is down; the capture waits for it");
        Ok(())
    }

    /// The interfaces that frames came from so far.
    pub fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    /// What the kernel counted since the beginning.
    pub fn counts(&mut self) -> CaptureCounts {
        self.socket.counts().unwrap_or_else(|error: io::Error| {
            eprintln!("note: the kernel does not tell how many packets it dropped: {error}");
            CaptureCounts::default()
        })
    }
}

impl<'a> Captured<'a> {
    /// The frame as a file takes it, with what there is to say about it.
    pub fn record(&self, comments: &'a [&'a str]) -> PcapRecord<'a> {
        let CapturedFrame { time, direction, original_len, data, .. } = self.frame;
        PcapRecord {
            interface: self.interface,
            time,
            original_len,
            direction,
            data,
            lost: 0,
            comments,
        }
    }

    /// The frame as analysis takes it, with its number in the capture.
    pub fn analyzed(&self, number: u64) -> Frame<'a> {
        let CapturedFrame { link_type, time, direction, original_len, data, .. } = self.frame;
        Frame {
            number,
            interface: self.interface,
            time: Timestamp::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            link_type: LinkType::from_number(link_type.into()),
            direction: Some(match direction {
                uroce_datapath::Direction::Inbound => Direction::Inbound,
                uroce_datapath::Direction::Outbound => Direction::Outbound,
            }),
            original_len,
            data,
            comment: "",
        }
    }
}

fn refused(error: &CaptureError) -> Failure {
    let failure = Failure::environment(error);
    match error {
        CaptureError::NotPermitted => {
            let program = std::env::current_exe();
            let program =
                program.map_or("uroce".to_owned(), |path| path.to_string_lossy().into_owned());
            failure.help(format!(
                "run it with sudo, or give the program the right: \
                 `sudo setcap cap_net_raw+ep {program}`"
            ))
        }
        CaptureError::TooManyInterfaces(_) => Failure::usage(error),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn a_missing_right_names_the_commands_that_give_it() {
        let failure = refused(&CaptureError::NotPermitted);
        assert_eq!(failure.exit, Exit::Environment);
        assert!(failure.what.contains("CAP_NET_RAW"), "{failure}");
        let help = failure.help.expect("advice");
        assert!(help.contains("sudo setcap cap_net_raw+ep /"), "{help}");
    }

    #[test]
    fn a_frame_is_analyzed_as_it_was_captured() {
        let frame = CapturedFrame {
            interface: 9,
            link_type: 101,
            time: Duration::new(1, 2),
            direction: uroce_datapath::Direction::Outbound,
            original_len: 70,
            data: b"abc",
        };
        let captured = Captured { frame, interface: 4 };
        let analyzed = captured.analyzed(17);
        assert_eq!((analyzed.number, analyzed.interface, analyzed.original_len), (17, 4, 70));
        assert_eq!(analyzed.time, Timestamp::from_nanos(1_000_000_002));
        assert_eq!(analyzed.link_type, LinkType::RawIp);
        assert_eq!((analyzed.direction, analyzed.data), (Some(Direction::Outbound), &b"abc"[..]));
    }
}
