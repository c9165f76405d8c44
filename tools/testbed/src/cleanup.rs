//! What must not outlive this program: processes, namespaces and folders, also after ctrl-c or a panic.
//!
//! The maker of such a thing holds a [`Guard`]; dropping it removes the thing. SIGINT and SIGTERM
//! end the program without unwinding, so one thread waits for them and removes what is registered.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// One thing to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leftover {
    /// A process by its id.
    Process(u32),
    /// A process group by the id of its first process.
    Group(u32),
    /// A network namespace by its name, with every process in it.
    Namespace(String),
    /// A folder with its content.
    Folder(PathBuf),
}

static REGISTERED: Mutex<Vec<Leftover>> = Mutex::new(Vec::new());
static WATCH: Once = Once::new();

/// Removes its [`Leftover`] when dropped.
#[derive(Debug)]
pub struct Guard(Leftover);

impl Guard {
    /// Registers `leftover` for removal on drop, SIGINT, SIGTERM and SIGHUP.
    pub fn new(leftover: Leftover) -> Self {
        WATCH.call_once(watch_signals);
        registered().push(leftover.clone());
        Self(leftover)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        remove(&self.0);
        registered().retain(|other| *other != self.0);
    }
}

fn registered() -> MutexGuard<'static, Vec<Leftover>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch_signals() {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else {
        return;
    };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            registered().iter().rev().for_each(remove);
            std::process::exit(128 + signal);
        }
    });
}

fn remove(leftover: &Leftover) {
    match leftover {
        Leftover::Process(id) => kill(&[id.to_string()]),
        Leftover::Group(id) => end_group(*id),
        Leftover::Namespace(name) => remove_namespace(name),
        Leftover::Folder(path) => drop(std::fs::remove_dir_all(path)),
    }
}

/// Ends all processes of a group.
fn end_group(id: u32) {
    kill(&["--".to_owned(), format!("-{id}")]);
}

fn remove_namespace(name: &str) {
    let inside = quiet(&["ip", "netns", "pids", name]);
    kill(&inside.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    quiet(&["ip", "netns", "delete", name]);
}

fn kill(ids: &[String]) {
    if !ids.is_empty() {
        let mut words = vec!["kill", "-KILL"];
        words.extend(ids.iter().map(String::as_str));
        quiet(&words);
    }
}

/// Runs a program whose failure cannot be helped any more; returns its output.
fn quiet(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_guard_ends_its_process() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        drop(Guard::new(Leftover::Process(child.id())));
        assert!(!child.wait().unwrap().success());
        assert!(!registered().contains(&Leftover::Process(child.id())));
    }
}
