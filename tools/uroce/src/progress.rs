//! A line on stderr that tells those who wait how far the work is.

use std::io::{IsTerminal, Write, stderr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Columns of a terminal that does not tell.
const COLUMNS: usize = 80;
/// Back to the start of the line, and nothing on it.
const ERASE: &str = "\r\x1b[2K";
/// One after the other: it moves.
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// Makes the text from how often it was drawn and the columns that there are.
type Text = Box<dyn Fn(usize, usize) -> String + Send>;

/// A line that is drawn again and again until this is dropped; nothing where stderr is no terminal.
pub struct Progress(Option<ProgressThread>);

struct ProgressThread {
    line: Arc<(Mutex<ProgressLine>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

struct ProgressLine {
    terminal: Box<dyn Write + Send>,
    text: Option<Text>,
    drawn: usize,
    is_shown: bool,
    has_ended: bool,
}

impl Progress {
    /// No line yet; it will be drawn this often.
    pub fn new(tick: Duration) -> Progress {
        if !stderr().is_terminal() {
            return Progress::hidden();
        }
        Progress::on(Box::new(stderr()), tick)
    }

    /// There will be no line.
    pub fn hidden() -> Progress {
        Progress(None)
    }

    fn on(terminal: Box<dyn Write + Send>, tick: Duration) -> Progress {
        let line =
            ProgressLine { terminal, text: None, drawn: 0, is_shown: false, has_ended: false };
        let line = Arc::new((Mutex::new(line), Condvar::new()));
        let drawn = line.clone();
        // Without a thread there is no line.
        let thread = thread::Builder::new().spawn(move || draw_until_the_end(&drawn, tick)).ok();
        Progress(Some(ProgressThread { line, thread }))
    }

    /// Shows a text, which is made anew each time it is drawn.
    pub fn show(&self, text: impl Fn(usize, usize) -> String + Send + 'static) {
        if let Some(running) = &self.0 {
            locked(&running.line.0).text = Some(Box::new(text));
            running.line.1.notify_all();
        }
    }

    /// Shows nothing from now on.
    pub fn clear(&self) {
        if let Some(running) = &self.0 {
            let mut line = locked(&running.line.0);
            line.text = None;
            line.erase();
        }
    }

    /// Prints something else while the line is not there.
    pub fn suspend(&self, print: impl FnOnce()) {
        match &self.0 {
            Some(running) => {
                let mut line = locked(&running.line.0);
                line.erase();
                print();
            }
            None => print(),
        }
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        let mut line = locked(&self.line.0);
        line.has_ended = true;
        line.erase();
        drop(line);
        self.line.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A panic of who prints must not be followed by one here.
fn locked(line: &Mutex<ProgressLine>) -> MutexGuard<'_, ProgressLine> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

fn draw_until_the_end((line, changed): &(Mutex<ProgressLine>, Condvar), tick: Duration) {
    let mut line = locked(line);
    while !line.has_ended {
        line.draw();
        line = changed.wait_timeout(line, tick).unwrap_or_else(PoisonError::into_inner).0;
    }
}

impl ProgressLine {
    fn draw(&mut self) {
        let Some(text) = &self.text else { return };
        let columns = rustix::termios::tcgetwinsize(stderr()).map_or(0, |size| size.ws_col.into());
        let columns = if columns == 0 { COLUMNS } else { columns };
        let text: String = text(self.drawn, columns).chars().take(columns).collect();
        self.drawn = self.drawn.wrapping_add(1);
        self.is_shown = true;
        self.write(&format!("{ERASE}{text}"));
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            self.write(ERASE);
        }
    }

    fn write(&mut self, text: &str) {
        let _ = self.terminal.write_all(text.as_bytes()).and_then(|()| self.terminal.flush());
    }
}

/// A sign of life before `message`.
pub fn spinner(drawn: usize, message: &str) -> String {
    format!("{} {message}", SPINNER[drawn % SPINNER.len()])
}

/// A bar as wide as there is room, behind it how many of how many are done, how many a second, and how long the rest takes.
pub fn bar(columns: usize, (done, all): (u64, u64), what: &str, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { done as f64 / seconds } else { 0.0 };
    let left = if rate > 0.0 { all.saturating_sub(done) as f64 / rate } else { 0.0 };
    let (of, left) = (format!("{}/{}", grouped(done), grouped(all)), rounded(left));
    let behind = format!(" {of} {what}, {rate:.1}/s, {left} left");
    let room = columns.saturating_sub(behind.chars().count());
    let share = if all == 0 { 1.0 } else { (done as f64 / all as f64).min(1.0) };
    let full = (share * room as f64) as usize;
    format!("{}{}{behind}", "█".repeat(full), "░".repeat(room - full))
}

/// With a comma behind thousands: `12,345`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// In the unit of which there are some.
fn rounded(seconds: f64) -> String {
    let units = [(86400.0, 'd'), (3600.0, 'h'), (60.0, 'm')];
    let unit = units.into_iter().find(|(unit, _)| seconds >= 1.5 * unit);
    let (unit, letter) = unit.unwrap_or((1.0, 's'));
    format!("{:.0}{letter}", seconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was written, also after the line has gone.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
        }

        fn wait_for(&self, text: &str) {
            let found = || self.text().contains(text);
            assert!((0..2000).any(|_| found() || {
                thread::sleep(Duration::from_millis(5));
                false
            }));
        }
    }

    #[test]
    fn a_line_moves_gives_way_and_goes() {
        let screen = Screen::default();
        let progress = Progress::on(Box::new(screen.clone()), Duration::from_millis(1));
        assert_eq!(screen.text(), "", "there is nothing to show");
        progress.show(|drawn, _| spinner(drawn, "first"));
        screen.wait_for("⠙ first");
        progress.suspend(|| assert!(screen.text().ends_with(ERASE)));
        progress.show(|_, columns| "x".repeat(columns + 9));
        screen.wait_for("xxx");
        drop(progress);
        assert!(screen.text().ends_with(ERASE));
        let longest = screen.text().split(ERASE).map(|line| line.chars().count()).max();
        assert!(longest < Some(1000), "a line of the terminal has room for it");
    }

    #[test]
    fn without_a_terminal_there_is_only_what_is_printed() {
        let progress = Progress::hidden();
        progress.show(|_, _| panic!("nobody sees it"));
        let mut printed = false;
        progress.suspend(|| printed = true);
        assert!(printed);
    }

    #[test]
    fn a_bar_fills_what_the_figures_leave() {
        let shown = bar(60, (2_500, 10_000), "seeds", Duration::from_secs(5));
        assert_eq!(
            shown,
            format!("{}{} 2,500/10,000 seeds, 500.0/s, 15s left", "█".repeat(5), "░".repeat(17))
        );
        let narrow = bar(10, (0, 3), "seeds", Duration::ZERO);
        assert_eq!(narrow, " 0/3 seeds, 0.0/s, 0s left");
        let full = bar(80, (3, 3), "seeds", Duration::from_secs(1));
        assert!(full.starts_with('█') && !full.contains('░'), "{full}");
        assert_eq!(full.chars().count(), 80);
    }

    #[test]
    fn times_are_told_in_a_unit_of_which_there_are_some() {
        let told = [0.0, 89.0, 90.0, 5399.0, 5400.0, 129_600.0].map(rounded);
        assert_eq!(told, ["0s", "89s", "2m", "90m", "2h", "2d"]);
    }
}
