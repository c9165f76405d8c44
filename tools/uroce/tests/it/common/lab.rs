//! NICs in a network namespace, and a program that captures what they send.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use uroce_testkit::namespace::Namespaces;

use super::{PROGRAM, text};

/// A namespace in which `uroce` runs, and a folder for files.
pub struct Lab {
    spaces: Namespaces,
    folder: PathBuf,
}

impl Lab {
    pub fn new(tag: &str) -> Option<Self> {
        let spaces = Namespaces::new(&["live"], tag)?;
        let folder = std::env::temp_dir().join(format!("uroce-live-{tag}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Some(Lab { spaces, folder })
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn uroce(&self, words: &str) -> Command {
        let mut command = self.spaces.command(0, PROGRAM);
        command.args(words.split_whitespace()).env("NO_COLOR", "1").current_dir(&self.folder);
        command
    }

    /// Starts `uroce capture WORDS` and waits until it captures.
    pub fn capture(&self, words: &str) -> Capturing {
        self.start(&format!("capture {words}"))
    }

    /// Starts `uroce WORDS`, which captures, and waits until it does.
    pub fn start(&self, words: &str) -> Capturing {
        let mut command = self.uroce(words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("it was built");
        let mut errors = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("it says that it captures");
        assert!(line.contains("Ctrl-C ends it"), "{line}");
        Capturing { child, errors }
    }

    /// One NIC pings another so many times, by way of the loopback interface.
    pub fn traffic(&self, pings: u32, more: &str) {
        let server = "rping -s -a 127.0.0.2 -p 7274 --datapath udp -v";
        let mut server = self.uroce(&format!("{server} -C {pings}"));
        let server = server.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut server = server.expect("it was built");
        let mut line = String::new();
        let mut errors = BufReader::new(server.stderr.take().expect("piped"));
        errors.read_line(&mut line).expect("it says that it listens");
        let client = format!("rping -c -a 127.0.0.2 -p 7274 -C {pings} --address 127.0.0.1 {more}");
        let output = self.uroce(&format!("{client} --datapath udp")).output().expect("built");
        assert!(output.status.success(), "{line}{}", text(&output));
        server.wait().expect("it ends with its client");
    }

    /// One NIC writes to another, which loses packets as `lossy` says.
    pub fn bandwidth(&self, lossy: &str) {
        let common = "perf write bw --datapath udp -n 300 -s 65536";
        let mut server = self.uroce(&format!("{common} --address 127.0.0.2 {lossy}"));
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut server = server.expect("it was built");
        // Until it listens the client tries again.
        let client = format!("{common} --no-split-writes --address 127.0.0.1 127.0.0.2");
        let output = self.uroce(&client).output().expect("built");
        assert!(output.status.success(), "{}", text(&output));
        server.wait().expect("it ends with its client");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A capture that is under way.
pub struct Capturing {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
}

impl Capturing {
    /// Sends a signal to the program itself.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
    }

    /// Sends it a signal that ends it.
    pub fn interrupt(self, signal: &str) -> Output {
        self.signal(signal);
        self.end()
    }

    /// What it prints until it ends.
    pub fn end(mut self) -> Output {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.child.stdout.take().expect("piped").read_to_end(&mut stdout).expect("its output");
        self.errors.read_to_end(&mut stderr).expect("its errors");
        Output { status: self.child.wait().expect("ours"), stdout, stderr }
    }
}
