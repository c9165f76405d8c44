//! What is run: unmodified programs, and how they find each other.

use uroce_rxe_guest::faults::Fault;

use crate::rxe::matrix::cell::Role;

/// How two programs find each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meeting {
    /// By address and port of rdma_cm.
    Call,
    /// They tell each other the numbers of their queue pairs over TCP.
    Tcp,
}

/// A program, as server and as client. OWN is the server's address there, PEER the same for the client;
/// PORT is a port that no other call of a run uses, GID the index of the address at that end.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// How its two ends find each other.
    pub meeting: Meeting,
    /// Command line of the server.
    pub server: &'static str,
    /// Command line of the client; `None`: that of the server with PEER behind it.
    client: Option<&'static str>,
    /// Takes the place of `PORT`, for programs that have a port of their own.
    pub port: Option<u16>,
    /// What both need besides on a wire that loses packets.
    pub on_loss: &'static str,
    /// The fault rules of our end (`UROCE_FAULT`) where it is the client; empty: none.
    pub client_faults: &'static str,
    /// The parts that our end plays.
    pub roles: &'static [Role],
}

/// perftest with `-R` makes two connections, and its server listens anew for the second one. A guest under emulation
/// does so later than its client asks for it, and rejects it: our REQs wait.
const LATE_REQUESTS: &str = "tx op=req -> delay=500ms";

const BOTH: [Role; 2] = [Role::Server, Role::Client];

const fn call(server: &'static str, client: &'static str) -> Call {
    Call { client: Some(client), ..same(server) }
}

/// Both ends have the same options.
const fn same(server: &'static str) -> Call {
    Call {
        meeting: Meeting::Call,
        server,
        client: None,
        port: None,
        on_loss: "",
        client_faults: "",
        roles: &BOTH,
    }
}

const fn pair(line: &'static str) -> Call {
    Call { meeting: Meeting::Tcp, ..same(line) }
}

/// The port of udaddy.
const UDADDY_PORT: u16 = 7174;

/// All of them. rxe repairs one gap per 67 ms: fewer messages where packets are lost. Nothing repeats a datagram that
/// is lost, and udaddy waits for it for ever: on a wire that loses packets it sends none, but finds its peer all
/// the same.
pub const CALLS: [Call; 22] = [
    call("rping -s -a OWN -p PORT -C 10", "rping -c -a PEER -p PORT -C 10 -v"),
    call("rping -s -a OWN -p PORT -C 3 -S 65000", "rping -c -a PEER -p PORT -C 3 -V -S 65000"),
    call("ucmatose -b OWN -p PORT -c 4", "ucmatose -s PEER -p PORT -c 4"),
    Call { port: Some(UDADDY_PORT), on_loss: " -C 0", ..call("udaddy -b OWN", "udaddy -s PEER") },
    Call {
        on_loss: " -n 10",
        client_faults: LATE_REQUESTS,
        ..same("ib_write_bw -F -R -p PORT -n 100")
    },
    Call { client_faults: LATE_REQUESTS, ..same("ib_send_lat -F -R -p PORT -n 50") },
    Call {
        on_loss: " -I 1 -C 50",
        ..call("rstream -b OWN -p PORT -T v -I 5", "rstream -s PEER -p PORT -T v -I 5")
    },
    Call {
        on_loss: " -I 2",
        ..call(
            "riostream -b OWN -p PORT -T v -I 20 -C 10",
            "riostream -s PEER -p PORT -T v -I 20 -C 10",
        )
    },
    pair("ibv_rc_pingpong -g GID -p PORT -n 100"),
    pair("ibv_rc_pingpong -g GID -p PORT -n 100 -e"),
    pair("ibv_uc_pingpong -g GID -p PORT -n 100"),
    pair("ibv_ud_pingpong -g GID -p PORT -n 100"),
    pair("ibv_srq_pingpong -g GID -p PORT -n 100"),
    pair("ib_write_bw -F -x GID -p PORT -n 100"),
    pair("ib_write_lat -F -x GID -p PORT -n 50"),
    pair("ib_read_bw -F -x GID -p PORT -n 50"),
    pair("ib_read_lat -F -x GID -p PORT -n 50"),
    pair("ib_send_bw -F -x GID -p PORT -n 100"),
    pair("ib_send_bw -F -x GID -p PORT -n 50 -b"),
    pair("ib_send_lat -F -x GID -p PORT -n 50 -c UD"),
    pair("ib_atomic_bw -F -x GID -p PORT -n 50"),
    pair("ib_atomic_lat -F -x GID -p PORT -n 50"),
];

impl Call {
    /// The name of the program.
    pub fn program(&self) -> &'static str {
        self.server.split(' ').next().unwrap_or_default()
    }

    /// Command line of the client.
    pub fn client(&self) -> String {
        self.client.map_or_else(|| format!("{} PEER", self.server), str::to_owned)
    }

    /// The options of the client that say what is done.
    pub fn options(&self) -> String {
        let client = self.client();
        let words = client.split(' ').skip(1);
        let mut words: Vec<_> =
            words.filter(|word| !["PEER", "PORT", "GID"].contains(word)).collect();
        words.retain(|word| {
            !["-p", "-s", "-a", "-c", "-g", "-x"].contains(word) || self.is_count(word)
        });
        words.join(" ")
    }

    /// `-c` is the client's part of rping, and a number or service elsewhere; `-s` is the server's address, but
    /// a size in programs that meet over TCP.
    fn is_count(&self, word: &str) -> bool {
        word == "-c" && self.program() != "rping" || word == "-s" && self.meeting == Meeting::Tcp
    }

    /// Programs that meet over TCP are tried on a clean wire only; `rxe matrix` does the rest with ours.
    pub fn is_for(&self, fault: Fault) -> bool {
        self.meeting == Meeting::Call || fault == Fault::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_that_differ() {
        let options: Vec<_> = CALLS.iter().map(|call| (call.program(), call.options())).collect();
        assert_eq!(options[0], ("rping", "-C 10 -v".to_owned()));
        assert_eq!(options[2], ("ucmatose", "-c 4".to_owned()));
        assert_eq!(options[3], ("udaddy", String::new()));
        assert_eq!(options[4], ("ib_write_bw", "-F -R -n 100".to_owned()));
        assert!(options.contains(&("ib_send_lat", "-F -n 50 -c UD".to_owned())));
    }
}
