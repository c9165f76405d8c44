//! The loop of the screen.

use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::app::App;
use super::sampler::Sampler;
use super::view::draw;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How soon new rates are shown.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the screen until the user ends it, and leaves the terminal as it was.
///
/// # Errors
/// Exit 3 when the terminal fails, or the system does not tell who is there any more.
pub fn show(sampler: &Sampler, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let ended = run(&mut terminal, sampler, interrupt);
    ratatui::restore();
    ended
}

fn failed(error: io::Error) -> Failure {
    Failure::environment(format!("the terminal cannot be used: {error}"))
        .help("`uroce top --once` prints text")
}

fn run(
    terminal: &mut DefaultTerminal,
    sampler: &Sampler,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let mut app = App::default();
    terminal.draw(|frame| draw(frame, &app)).map_err(failed)?;
    while !app.is_ended() && !interrupt.is_set() {
        let rates = sampler.try_next()?;
        let mut changed = rates.is_some();
        rates.into_iter().for_each(|rates| app.handle_rates(rates));
        if event::poll(LOOK).map_err(failed)? {
            match event::read().map_err(failed)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => app.handle_key(key),
                _ => {}
            }
            changed = true;
        }
        if changed {
            terminal.draw(|frame| draw(frame, &app)).map_err(failed)?;
        }
    }
    Ok(())
}
