//! The command lines of both sides.

use std::net::IpAddr;

use uroce_rxe_guest::addresses;
use uroce_rxe_guest::script::{cm_listens, tcp_listens};

use super::cell::{Cell, Figure, Pingpong, Program, Verb};

/// Which of the two programs of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Waits for the other one.
    Server,
    /// Connects to the server at our end or at the guest's end; the argument is its IPv4 address,
    /// because the stock ping-pong servers listen on IPv4 only. RoCE may be IPv6 all the same.
    Client(std::net::Ipv4Addr),
}

/// The stock program in a guest whose GID for the cell's IP version has index `gid`.
pub fn stock(cell: &Cell, part: Part, port: u16, gid: u8) -> String {
    let mut words = match cell.program {
        Program::Pingpong(service) => format!("ibv_{}_pingpong -g {gid}", service.name()),
        Program::Perf(verb, figure) => format!("{} -x {gid} -F", stock_perf(verb, figure)),
        Program::Rping => return rping(cell, part, port, [cell.family.far(), cell.family.near()]),
    };
    words += &format!(" -d rxe0 {}", shared_flags(cell, port));
    push_host(words, part)
}

/// Our program, without its own name.
pub fn ours(cell: &Cell, part: Part, port: u16) -> String {
    let mut words = match cell.program {
        Program::Pingpong(service) => format!("pingpong {}", service.name()),
        Program::Perf(verb, figure) => our_perf(verb, figure),
        Program::Rping => {
            let ends = [cell.family.near(), cell.family.far()];
            let line = rping(cell, part, port, ends);
            return format!("{line} --address {}", cell.family.near());
        }
    };
    words += &format!(" --address {} {}", cell.family.near(), shared_flags(cell, port));
    push_host(words, part)
}

/// Ours and the stock one take the same flags. `ends`: the program's own address, and its peer's.
fn rping(cell: &Cell, part: Part, port: u16, [own, peer]: [IpAddr; 2]) -> String {
    match part {
        // Without -S the stock server has room for 64 bytes.
        Part::Server => format!("rping -s -a {own} -p {port} -S {}", cell.size),
        Part::Client(_) => {
            let (count, size) = (cell.iterations(), cell.size);
            format!("rping -c -a {peer} -p {port} -C {count} -S {size} -V")
        }
    }
}

fn shared_flags(cell: &Cell, port: u16) -> String {
    let mut flags = format!("-p {port} -n {}", cell.iterations());
    if !cell.program.is_atomic() {
        flags += &format!(" -s {}", cell.size);
    }
    if cell.program != Program::Pingpong(Pingpong::Ud) {
        flags += &format!(" -m {}", cell.mtu);
    }
    flags
}

fn push_host(words: String, part: Part) -> String {
    match part {
        Part::Server => words,
        Part::Client(host) => format!("{words} {host}"),
    }
}

impl Pingpong {
    fn name(self) -> &'static str {
        match self {
            Self::Rc => "rc",
            Self::Uc => "uc",
            Self::Ud => "ud",
            Self::Srq => "srq",
        }
    }
}

fn stock_perf(verb: Verb, figure: Figure) -> String {
    let figure = figure.name();
    match verb {
        Verb::Write => format!("ib_write_{figure}"),
        Verb::Read => format!("ib_read_{figure}"),
        Verb::Send => format!("ib_send_{figure}"),
        Verb::FetchAdd => format!("ib_atomic_{figure} -A FETCH_AND_ADD"),
        Verb::CompareSwap => format!("ib_atomic_{figure} -A CMP_AND_SWAP"),
    }
}

fn our_perf(verb: Verb, figure: Figure) -> String {
    let figure = figure.name();
    match verb {
        Verb::Write => format!("perf write {figure}"),
        Verb::Read => format!("perf read {figure}"),
        Verb::Send => format!("perf send {figure}"),
        Verb::FetchAdd => format!("perf atomic {figure} -A FETCH_AND_ADD"),
        Verb::CompareSwap => format!("perf atomic {figure} -A CMP_AND_SWAP"),
    }
}

const LISTENING: &str = "the server listens";
const OUR_RPING: &str = "waiting for a client on ";

/// A script for a guest that runs `line`; a server says when it listens at `port`.
pub fn stock_script(cell: &Cell, line: &str, part: Part, port: u16) -> String {
    if part != Part::Server {
        return format!("exec {line}\n");
    }
    let listens = match cell.program {
        Program::Rping => cm_listens(port),
        _ => tcp_listens(port),
    };
    serving_script(line, &listens)
}

/// A script for a guest that runs the server `line` and says when it listens.
pub fn serving_script(line: &str, listens: &str) -> String {
    format!(
        "{line} &\n\
         while kill -0 $! && ! {listens}; do sleep 0.02; done\n\
         echo {LISTENING}\n\
         wait $!\n"
    )
}

/// True when the output of a [`stock_script`], or of our `rping`, says that the server listens.
pub fn announces_itself(output: &str) -> bool {
    output.contains(LISTENING) || output.contains(OUR_RPING)
}

/// The client's part when the server sits at the guest's end.
pub const TO_GUEST: Part = Part::Client(addresses::GUEST_V4);

/// The client's part when the server sits at our end.
pub const TO_US: Part = Part::Client(addresses::HOST_V4);

#[cfg(test)]
mod tests {
    use uroce_rxe_guest::faults::Fault;

    use super::super::cell::{Family, Role};
    use super::*;

    fn cell(program: Program) -> Cell {
        Cell {
            program,
            role: Role::Client,
            size: 4096,
            mtu: 256,
            family: Family::V6,
            fault: Fault::None,
        }
    }

    #[test]
    fn both_sides_get_the_same_numbers() {
        let cell = cell(Program::Perf(Verb::Write, Figure::Lat));
        assert_eq!(
            ours(&cell, TO_GUEST, 7),
            "perf write lat --address fd77::1 -p 7 -n 200 -s 4096 -m 256 10.77.0.2"
        );
        assert_eq!(
            stock(&cell, Part::Server, 7, 2),
            "ib_write_lat -x 2 -F -d rxe0 -p 7 -n 200 -s 4096 -m 256"
        );
    }

    #[test]
    fn datagrams_have_no_mtu_and_atomics_no_size() {
        let ud = stock(&cell(Program::Pingpong(Pingpong::Ud)), Part::Server, 7, 1);
        assert_eq!(ud, "ibv_ud_pingpong -g 1 -d rxe0 -p 7 -n 100 -s 4096");
        let cas = ours(&cell(Program::Perf(Verb::CompareSwap, Figure::Bw)), Part::Server, 7);
        assert_eq!(cas, "perf atomic bw -A CMP_AND_SWAP --address fd77::1 -p 7 -n 200 -m 256");
    }
}
