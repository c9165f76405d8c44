//! System calls that a child process is refused, by a seccomp filter: as in a container, or as on a kernel that has not got them.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, c_int, c_long, sock_filter,
    sock_fprog,
};

/// Where the number of the call is in what a filter sees, and where its arguments begin.
const NUMBER: u32 = 0;
const ARGUMENTS: u32 = 16;
/// The answer of a filter that refuses with an errno, and of one that lets a call pass.
const ERRNO: u32 = 0x0005_0000;
const ALLOW: u32 = 0x7fff_0000;

/// A call that fails.
#[derive(Debug, Clone)]
pub struct RefusedCall {
    call: u32,
    /// Places and values of arguments; their lower 32 bits are compared.
    only: Vec<(u8, u32)>,
    errno: c_int,
}

impl RefusedCall {
    /// Every `call` (`libc::SYS_...`) fails with `errno`.
    #[must_use]
    pub fn of(call: c_long, errno: c_int) -> Self {
        RefusedCall { call: u32::try_from(call).expect("a small number"), only: Vec::new(), errno }
    }

    /// Only calls that have `value` as their argument number `place`, from 0.
    #[must_use]
    pub fn with(mut self, place: u8, value: c_int) -> Self {
        self.only.push((place, value.cast_unsigned()));
        self
    }

    /// Sockets of this family.
    #[must_use]
    pub fn socket(family: c_int, errno: c_int) -> Self {
        RefusedCall::of(libc::SYS_socket, errno).with(0, family)
    }

    /// A socket option, as a kernel that does not know it refuses it.
    #[must_use]
    pub fn option(level: c_int, name: c_int) -> Self {
        RefusedCall::of(libc::SYS_setsockopt, libc::ENOPROTOOPT).with(1, level).with(2, name)
    }

    fn steps(&self) -> Vec<sock_filter> {
        let mut steps = vec![load(NUMBER)];
        // Past the rest of the comparisons, two steps each, and the answer.
        let past = |left: usize| u8::try_from(2 * left + 1).expect("few arguments");
        steps.push(unless_equal(self.call, past(self.only.len())));
        for (index, (place, value)) in self.only.iter().enumerate() {
            steps.push(load(ARGUMENTS + 8 * u32::from(*place)));
            steps.push(unless_equal(*value, past(self.only.len() - index - 1)));
        }
        steps.push(answer(ERRNO | self.errno.cast_unsigned()));
        steps
    }
}

/// The child of `command` is refused these calls from its start on, and so are its own children.
pub fn confine(command: &mut Command, refusals: &[RefusedCall]) {
    let mut steps: Vec<sock_filter> = refusals.iter().flat_map(RefusedCall::steps).collect();
    steps.push(answer(ALLOW));
    let length = u16::try_from(steps.len()).expect("a short filter");
    // SAFETY: between fork and exec only prctl(2) is called, with a filter that the closure owns.
    unsafe {
        command.pre_exec(move || {
            let program = sock_fprog { len: length, filter: steps.as_mut_ptr() };
            let filter: *const sock_fprog = &raw const program;
            let done = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, filter) == 0;
            if done { Ok(()) } else { Err(io::Error::last_os_error()) }
        })
    };
}

fn load(at: u32) -> sock_filter {
    sock_filter { code: (BPF_LD | BPF_W | BPF_ABS) as u16, jt: 0, jf: 0, k: at }
}

fn unless_equal(value: u32, skip: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 0, jf: skip, k: value }
}

fn answer(value: u32) -> sock_filter {
    sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k: value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(refusals: &[RefusedCall], script: &str) -> String {
        let mut shell = Command::new("sh");
        confine(shell.args(["-c", &format!("exec 2>&1; {script}")]), refusals);
        let output = shell.output().expect("a shell");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    #[test]
    fn a_call_is_refused_with_its_errno_and_others_pass() {
        let refused = says(&[RefusedCall::of(libc::SYS_chdir, libc::EXDEV)], "cd /; echo on");
        assert!(
            refused.contains("nvalid cross-device link") || refused.contains("can't cd"),
            "{refused}"
        );
        assert!(refused.ends_with("on\n"), "{refused}");
        assert_eq!(says(&[], "cd / && pwd"), "/\n");
    }

    #[test]
    fn only_calls_with_the_arguments_are_refused() {
        // kill(pid, 0) asks whether a process is there; 10 is a signal that ends the shell.
        let refusals = [RefusedCall::of(libc::SYS_kill, libc::EPERM).with(1, 10)];
        let said = says(&refusals, "kill -0 $$ && echo there; kill -10 $$ || echo refused");
        assert!(said.starts_with("there\n") && said.ends_with("refused\n"), "{said}");
    }
}
