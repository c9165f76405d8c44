//! The other processes of this host, as unix sockets show them.

use std::io;

pub use crate::sys::credentials::{Peer, peer};

/// How /proc/net/unix shows that a socket is listened on.
const LISTENING: &str = "00010000";

/// The rest of the abstract socket names that start with `prefix` and are listened on in this
/// network namespace. Any process may have names that are no text; they are skipped.
///
/// # Errors
///
/// When the system does not show its unix sockets (/proc/net/unix).
pub fn listeners(prefix: &str) -> io::Result<Vec<String>> {
    // That of this thread: it may be in another network namespace than the first one of the process.
    let table = std::fs::read("/proc/thread-self/net/unix")?;
    Ok(read(&table, prefix))
}

fn read(table: &[u8], prefix: &str) -> Vec<String> {
    let listens = |line: &&str| line.split(' ').nth(3) == Some(LISTENING);
    let prefix = format!(" @{prefix}");
    let lines =
        table.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let names = lines.filter(listens).filter_map(|line| line.split_once(&prefix));
    names.map(|(_, rest)| rest.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    use super::*;

    #[test]
    fn only_names_that_are_listened_on_count() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 17 @a/one\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 18 @a/two\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 19 @b/three\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 20 /a/four\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 21\n";
        assert_eq!(read(table.as_bytes(), "a/"), ["one"]);
        assert_eq!(read(b"", "a/"), [""; 0]);
    }

    #[test]
    fn a60_a_name_that_is_no_text_hides_no_other() {
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01 17 @a/".as_slice();
        let table = [line, b"\xff\xfe\n", line, b"one\n", line, b"\x80"].concat();
        assert_eq!(read(&table, "a/"), ["one"]);
    }

    #[test]
    fn a42_a_name_that_is_not_text_hides_no_other() {
        let prefix = format!("uroce-bytes/{}/", std::process::id());
        let bytes = [prefix.as_bytes(), b"\xff\xfe\n"].concat();
        let listen = |name: &[u8]| {
            let name = SocketAddr::from_abstract_name(name).expect("short");
            UnixListener::bind_addr(&name).expect("free")
        };
        let _sockets = [listen(&bytes), listen(format!("{prefix}plain").as_bytes())];
        let found = listeners(&prefix).expect("shown");
        assert!(found.contains(&"plain".to_owned()), "{found:?}");
    }

    #[test]
    fn a_listener_is_found_and_so_is_who_connects() {
        let prefix = format!("uroce-test/{}/", std::process::id());
        let name = SocketAddr::from_abstract_name(format!("{prefix}x")).expect("short");
        let listener = UnixListener::bind_addr(&name).expect("free");
        assert_eq!(listeners(&prefix).expect("shown"), ["x"]);
        let ours = UnixStream::connect_addr(&name).expect("listened on");
        let (theirs, _) = listener.accept().expect("waiting");
        let me = Peer { pid: std::process::id(), user: rustix::process::geteuid().as_raw() };
        assert_eq!((peer(&ours).expect("unix"), peer(&theirs).expect("unix")), (me, me));
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        assert_ne!(peer(&udp).ok(), Some(me));
    }
}
