//! One of the processes on an address: this test binary once more, told line by line what to do.

use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What makes the binary a member: its address.
pub const ROLE: &str = "UROCE_TEST_MEMBER_OF";
/// Before every answer, since the test harness prints too.
const MARK: &str = "@ ";

/// A member; dropping it kills it.
pub struct Member {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Member {
    /// Runs `command`, which is [`program`], perhaps with an environment or a user of its own.
    pub fn start(address: IpAddr, command: &mut Command) -> Member {
        let mut child = command
            .args(["--exact", "a_member_does_what_it_is_told", "--nocapture"])
            .env(ROLE, address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let to = child.stdin.take().expect("piped");
        let from = BufReader::new(child.stdout.take().expect("piped"));
        Member { child, to, from }
    }

    pub fn tell(&mut self, order: &str) {
        writeln!(self.to, "{order}").expect("it lives");
    }

    /// The words of its next answer.
    pub fn answer(&mut self) -> Vec<String> {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.from.read_line(&mut line).expect("a pipe"), 0, "the member died");
            // The harness does not end its own line before a test prints.
            if let Some((_, answer)) = line.split_once(MARK) {
                return answer.split_whitespace().map(str::to_owned).collect();
            }
        }
    }

    pub fn ask(&mut self, order: &str) -> Vec<String> {
        self.tell(order);
        self.answer()
    }

    /// A number that it was asked for.
    pub fn number(&mut self, order: &str) -> u64 {
        self.ask(order)[0].parse().expect("a number")
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("its status");
    }
}

/// This test binary.
pub fn program() -> Command {
    Command::new(std::env::current_exe().expect("a path"))
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints an answer.
pub fn say(answer: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{MARK}{answer}").expect("a pipe");
    out.flush().expect("a pipe");
}

/// Lets each send a round to its neighbour, and verify what it gets.
pub fn tell_exchange(members: &mut [Member], order: &str) {
    for pair in members.chunks_exact_mut(2) {
        pair[0].tell(&format!("{order} 3 4"));
        pair[1].tell(&format!("{order} 4 3"));
    }
}

/// Waits until each has what its neighbour sent by so many services.
pub fn await_exchange(members: &mut [Member], kinds: usize) {
    let all = (kinds * super::life::ROUND).to_string();
    members.iter_mut().for_each(|member| assert_eq!(member.answer(), std::slice::from_ref(&all)));
}
