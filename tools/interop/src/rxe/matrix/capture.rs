//! Records the wire and checks the ICRC of every packet on it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pcap_file::pcap::PcapReader;
use serde::Serialize;
use uroce_rxe_guest::namespace::{Namespace, TAP};
use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, run};
use uroce_wire::parse_ethernet;

use super::cell::Family;

/// What passed the wire during one cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// RoCE packets from our end.
    pub near_packets: u64,
    /// RoCE packets from the guest.
    pub far_packets: u64,
    /// Of those from our end: ICRC wrong, or not a RoCE packet at all.
    pub near_bad: u64,
    /// Of those from the guest.
    pub far_bad: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.near_packets += other.near_packets;
        self.far_packets += other.far_packets;
        self.near_bad += other.near_bad;
        self.far_bad += other.far_bad;
    }
}

/// A running tcpdump.
#[derive(Debug)]
pub struct Capture {
    child: Child,
    file: PathBuf,
    _guard: Guard,
}

impl Capture {
    /// Starts to record RoCE traffic into `file`; comes back when the recording really runs.
    ///
    /// # Errors
    /// tcpdump is missing or did not start.
    pub fn start(namespace: &Namespace, file: &Path) -> Result<Self> {
        // Immediate: else the kernel keeps packets back until a second has passed.
        let words = format!("tcpdump -i {TAP} -s 0 -U --immediate-mode -B 65536 -Z root -w");
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut tcpdump = namespace.command(&words);
        tcpdump
            .arg(file)
            .args(["udp", "port", "4791"])
            .stderr(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = tcpdump.spawn().context(|| "tcpdump did not start")?;
        let guard = Guard::new(Leftover::Process(child.id()));
        let stderr = child.stderr.take().expect("asked for above");
        let mut lines = BufReader::new(stderr).lines().map_while(std::io::Result::ok);
        if !lines.any(|line| line.contains("listening on")) {
            return Err(Error::new("tcpdump ended before it recorded anything"));
        }
        // tcpdump writes its counts here at the end; without a reader it would get SIGPIPE.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, file: file.to_owned(), _guard: guard })
    }

    /// Ends the recording and checks what is in it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn finish(mut self, family: Family) -> Result<Tally> {
        self.settle();
        run(&mut command(["kill", "-INT", &self.child.id().to_string()]))?;
        self.child.wait().context(|| "tcpdump could not be waited for")?;
        check(&self.file, family)
    }

    /// Waits until the file has not grown for a moment: the last packets may be on their way.
    fn settle(&self) {
        let size = || std::fs::metadata(&self.file).map_or(0, |metadata| metadata.len());
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut before = size();
        while Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(60));
            let now = size();
            if now == before {
                return;
            }
            before = now;
        }
    }
}

fn check(file: &Path, family: Family) -> Result<Tally> {
    let opened = File::open(file).context(|| format!("could not open {}", file.display()))?;
    let mut reader = PcapReader::new(opened).context(|| "the capture has no header")?;
    let mut tally = Tally::default();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.context(|| "the capture is broken")?;
        count(&packet.data, family.near(), &mut tally);
    }
    Ok(tally)
}

fn count(bytes: &[u8], near: IpAddr, tally: &mut Tally) {
    let frame = parse_ethernet(bytes);
    let good = frame.as_ref().is_ok_and(|frame| frame.icrc_is_right());
    // A frame too broken to be taken apart still has its source MAC: the guest's ends in 02.
    let from_near = match &frame {
        Ok(frame) => frame.addresses().0 == near,
        Err(_) => bytes.get(6..12) != Some(&[0x52, 0x54, 0, 0x75, 0x72, 2]),
    };
    let (packets, bad) = match from_near {
        true => (&mut tally.near_packets, &mut tally.near_bad),
        false => (&mut tally.far_packets, &mut tally.far_bad),
    };
    *packets += 1;
    *bad += u64::from(!good);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_frames_are_counted_against_their_sender() {
        let mut tally = Tally::default();
        let mut frame = [0_u8; 60];
        count(&frame, Family::V4.near(), &mut tally);
        frame[6..12].copy_from_slice(&[0x52, 0x54, 0, 0x75, 0x72, 2]);
        count(&frame, Family::V4.near(), &mut tally);
        assert_eq!(tally, Tally { near_packets: 1, far_packets: 1, near_bad: 1, far_bad: 1 });
    }
}
