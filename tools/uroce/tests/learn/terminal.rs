//! Runs the commands of a page.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use uroce_testkit::namespace::Namespaces;

use super::common;
use super::page::Step;
use super::pattern::{self, Extent, Measure};

/// A command that has not ended by then does not end.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(90);

/// Runs a command before those of others, where that is permitted: the pages show what happens where a program is run as soon as
/// it has something to do, and on a busy machine timers would run out that the pages do not show.
const PREFERRED: &str = r#"renice -n -15 $$ > /dev/null 2>&1; exec "$@""#;

/// Runs all commands; the error says what was not as on the page.
pub fn play(file: &str, steps: &[Step], measure: Measure) -> Result<(), String> {
    let tag: String = file.chars().filter(char::is_ascii_digit).collect();
    let Some(namespaces) = Namespaces::new(&["learn"], &tag) else { return Ok(()) };
    let folder = Folder::new(namespaces.name(0));
    let mut background: BTreeMap<String, Running> = BTreeMap::new();
    for step in steps {
        let previous = background.remove(&step.terminal);
        if step.command == "^C" {
            previous.ok_or("nothing to interrupt")?.interrupt(step)?;
            continue;
        }
        previous.map_or(Ok(()), Running::end)?;
        let running = Running::start(step, &namespaces, &folder.0, measure);
        if matches!(step.terminal.as_str(), "" | "client") {
            running.compare()?;
        } else {
            background.insert(step.terminal.clone(), running.begins()?);
        }
    }
    background.into_values().try_for_each(Running::end)
}

/// The folder in which the commands run, with the captures of this repository; removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pcaps");
        std::os::unix::fs::symlink(captures, path.join("pcaps")).expect("a link");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A command and what it has printed so far.
struct Running {
    step: Step,
    child: Child,
    output: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
    /// Bytes of the output that were compared.
    compared: usize,
    measure: Measure,
}

impl Running {
    fn start(step: &Step, namespaces: &Namespaces, folder: &Path, measure: Measure) -> Self {
        let (mut from, to) = std::io::pipe().expect("a pipe");
        let words = match step.command.strip_prefix("sudo ") {
            Some(command) => vec!["bash", "-c", command],
            None => vec!["setpriv", "--bounding-set=-all", "bash", "-c", &step.command],
        };
        let mut command = namespaces.command(0, "bash");
        command.args(["-c", PREFERRED, "bash"]).args(words);
        command.current_dir(folder).process_group(0);
        command.stdin(Stdio::null()).stdout(to.try_clone().expect("a descriptor")).stderr(to);
        environment(&mut command);
        let child = command.spawn().expect("ip, which made the namespace");
        drop(command); // holds the end of the pipe that is written to
        let output = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&output);
        let reader = std::thread::spawn(move || {
            let mut block = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut block) {
                shared.lock().expect("no panic").extend_from_slice(&block[..length]);
            }
        });
        Self { step: step.clone(), child, output, reader: Some(reader), compared: 0, measure }
    }

    /// Lines that were not compared yet.
    fn lines(&self) -> Vec<String> {
        let output = self.output.lock().expect("no panic");
        String::from_utf8_lossy(&output[self.compared..]).lines().map(str::to_owned).collect()
    }

    /// Waits until it has printed what the page shows.
    fn begins(mut self) -> Result<Self, String> {
        let deadline = Instant::now() + SCREEN_TIMEOUT;
        while !pattern::begins(&self.step.shown, &self.lines()) {
            let is_over = self.child.try_wait().expect("a child").is_some();
            if is_over || Instant::now() > deadline {
                return Err(self.difference("it did not begin as on the page"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(self)
    }

    /// Waits for its end, which must be as on the page.
    fn compare(mut self) -> Result<(), String> {
        let is_success = self.wait()?;
        let may_fail = self.step.shown.iter().any(|line| line.starts_with("error:"));
        if !self.is_as_shown() {
            return Err(self.difference("it printed something else"));
        }
        if is_success || may_fail {
            return Ok(());
        }
        Err(self.difference("it failed, and the page does not say so"))
    }

    fn is_as_shown(&self) -> bool {
        let Step { command, shown, .. } = &self.step;
        match self.measure {
            Measure::Lines => pattern::matches(shown, &self.lines(), Extent::of(command)),
            Measure::Words => pattern::resembles(shown, &self.lines()),
        }
    }

    /// Interrupts it; what it prints behind the lines that were shown must be what `step` shows.
    fn interrupt(mut self, step: &Step) -> Result<(), String> {
        let output = self.output.lock().expect("no panic").clone();
        let lines = output.split_inclusive(|byte| *byte == b'\n').take(self.step.shown.len());
        self.compared = lines.map(<[u8]>::len).sum();
        self.step.shown.clone_from(&step.shown);
        self.signal("INT");
        self.wait()?;
        if self.is_as_shown() {
            return Ok(());
        }
        Err(self.difference("interrupted, it printed something else"))
    }

    /// Waits for the end of a command in the background.
    fn end(mut self) -> Result<(), String> {
        self.wait().map(|_| ())
    }

    fn wait(&mut self) -> Result<bool, String> {
        let deadline = Instant::now() + SCREEN_TIMEOUT;
        let status = loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => break status,
                None if Instant::now() > deadline => return Err(self.difference("it does not end")),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        self.reader.take().map_or(Ok(()), JoinHandle::join).expect("no panic");
        match self.lines().iter().any(|line| line.contains("panicked at")) {
            true => Err(self.difference("it panicked")),
            false => Ok(status.success()),
        }
    }

    fn signal(&self, name: &str) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-s", name, "--", &group]).status();
    }

    fn difference(&self, what: &str) -> String {
        let Step { terminal, command, shown } = &self.step;
        let (shown, lines) = (shown.join("\n"), self.lines().join("\n"));
        format!("{what}\n{terminal}$ {command}\n--- the page\n{shown}\n--- now\n{lines}\n---")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.signal("KILL");
            let _ = self.child.wait();
        }
    }
}

/// The program of this build comes first, and nothing of the environment changes what it does.
fn environment(command: &mut Command) {
    let program = Path::new(common::PROGRAM).parent().expect("a folder").display();
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{program}:{path}")).env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8");
    let names = std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("UROCE_"));
    names.for_each(|name| _ = command.env_remove(name));
}
