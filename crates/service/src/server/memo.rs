//! Which slots have been given out, in a file: a service that was restarted keeps them for those who had them.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use uroce_wire::Slot;

use crate::message::SlotToken;

/// Time for which a slot is kept for the client that had it. Clients look for the service more often than that.
const KEPT: Duration = Duration::from_secs(35);

/// Bytes of the file at most: a line has no more than 128, and each of many addresses 64 slots.
const LONGEST: u64 = 1 << 20;

/// The owner of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotOwner {
    pub(super) user: u32,
    pub(super) token: SlotToken,
}

/// The slots of all addresses.
#[derive(Debug)]
pub(super) struct SlotMemo {
    file: PathBuf,
    owners: HashMap<(SocketAddr, Slot), SlotOwner>,
    /// Slots of clients that have not come back yet.
    awaited: HashMap<(SocketAddr, Slot), SlotOwner>,
    awaited_until: Instant,
}

impl SlotMemo {
    /// Whether `file` can be the file of slots: there is none, or it has nothing but slots in it. Another one would be replaced.
    ///
    /// # Errors
    /// It is no file, or has other things in it.
    pub(super) fn check(file: &Path) -> io::Result<()> {
        let is_right = match fs::symlink_metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            found => {
                let found = found?;
                found.is_file()
                    && found.len() <= LONGEST
                    && fs::read(file)?.split(|byte| *byte == b'\n').all(is_line)
            }
        };
        let what = "it is no file of slots: remove it, or name another --slots";
        if is_right { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidData, what)) }
    }

    /// What the file says; nothing if there is none.
    pub(super) fn load(file: PathBuf) -> Self {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let awaited = text.lines().filter_map(read_line).collect();
        Self { file, owners: HashMap::new(), awaited, awaited_until: Instant::now() + KEPT }
    }

    /// Whether a new client may have the slot.
    pub(super) fn is_free(&self, place: (SocketAddr, Slot)) -> bool {
        let is_awaited = self.awaited.contains_key(&place) && Instant::now() < self.awaited_until;
        !is_awaited && !self.owners.contains_key(&place)
    }

    /// Whether the slot was this client's before the service was restarted, and is still kept for it.
    pub(super) fn is_kept_for(&self, place: (SocketAddr, Slot), owner: SlotOwner) -> bool {
        self.awaited.get(&place) == Some(&owner) && !self.owners.contains_key(&place)
    }

    pub(super) fn give(&mut self, place: (SocketAddr, Slot), owner: SlotOwner) {
        self.awaited.remove(&place);
        self.owners.insert(place, owner);
        self.save();
    }

    pub(super) fn take_back(&mut self, place: (SocketAddr, Slot)) {
        self.owners.remove(&place);
        self.save();
    }

    /// Without a file clients lose their places with the next restart; everything else goes on.
    fn save(&self) {
        let awaited = self.awaited.iter().filter(|_| Instant::now() < self.awaited_until);
        let lines = self.owners.iter().chain(awaited).map(|(place, owner)| line(place, owner));
        let text: String = lines.collect();
        if let Err(error) = self.write(&text) {
            tracing::warn!(%error, file = %self.file.display(), "clients will not survive a restart of this service");
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut new = self.file.clone().into_os_string();
        new.push(format!(".uroce-{}", std::process::id()));
        fs::remove_file(&new).ok();
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        fs::rename(new, &self.file)
    }
}

/// A line of the file, or what is behind its end.
fn is_line(line: &[u8]) -> bool {
    line.is_empty() || std::str::from_utf8(line).ok().and_then(read_line).is_some()
}

fn line((addr, slot): &(SocketAddr, Slot), owner: &SlotOwner) -> String {
    format!("{addr} {slot} {} {:032x}\n", owner.user, u128::from_be_bytes(owner.token))
}

fn read_line(line: &str) -> Option<((SocketAddr, Slot), SlotOwner)> {
    let mut words = line.split(' ');
    let place = (words.next()?.parse().ok()?, Slot::new(words.next()?.parse().ok()?)?);
    let user = words.next()?.parse().ok()?;
    let token = u128::from_str_radix(words.next()?, 16).ok()?.to_be_bytes();
    Some((place, SlotOwner { user, token }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_kept_for_their_owners_over_a_restart() {
        let file = std::env::temp_dir().join(format!("uroce-memo-{}", std::process::id()));
        let local: SocketAddr = "[fd00::1]:4791".parse().expect("an address");
        let place = |number| (local, Slot::new(number).expect("a slot"));
        let owner = SlotOwner { user: 1000, token: [0xa5; 16] };
        let mut memo = SlotMemo::load(file.clone());
        memo.give(place(3), owner);
        memo.give(place(4), owner);
        memo.take_back(place(4));
        assert!(!memo.is_free(place(3)) && memo.is_free(place(4)));

        let mut memo = SlotMemo::load(file.clone());
        assert!(
            !memo.is_free(place(3)) && memo.is_free(place(4)) && memo.is_kept_for(place(3), owner)
        );
        for thief in [SlotOwner { user: 1001, ..owner }, SlotOwner { token: [0; 16], ..owner }] {
            assert!(!memo.is_kept_for(place(3), thief));
        }
        memo.give(place(3), owner);
        assert!(!memo.is_kept_for(place(3), owner), "it is there");
        assert!(SlotMemo::check(&file).is_ok());
        std::fs::write(&file, "nonsense\n\n10.0.0.1:1 0 1 1\n").expect("written");
        assert!(SlotMemo::load(file.clone()).awaited.is_empty());
        assert!(SlotMemo::check(&file).is_err(), "it is somebody else's");
        std::fs::remove_file(&file).expect("removed");
        assert!(SlotMemo::check(&file).is_ok(), "there is none");
        assert!(SlotMemo::check(Path::new("/dev/full")).is_err());
    }
}
