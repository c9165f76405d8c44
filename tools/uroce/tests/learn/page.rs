//! The commands of a page and what it shows of their output.

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Name of the terminal; empty for any.
    pub terminal: String,
    pub command: String,
    /// The lines below it.
    pub shown: Vec<String>,
}

/// The commands of all `console` blocks, in their order.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            is_console = kind == "console";
        } else if is_console {
            add(&mut steps, line);
        }
    }
    steps
}

fn add(steps: &mut Vec<Step>, line: &str) {
    if let Some((terminal, command)) = prompt(line) {
        let (terminal, command) = (terminal.to_owned(), command.to_owned());
        steps.push(Step { terminal, command, shown: Vec::new() });
        return;
    }
    let step = steps.last_mut().expect("a block begins with a command");
    match step.command.strip_suffix('\\') {
        Some(begin) if step.shown.is_empty() => step.command = format!("{begin}{}", line.trim()),
        _ => step.shown.push(line.to_owned()),
    }
}

/// Terminal and command of a line that has a prompt.
fn prompt(line: &str) -> Option<(&str, &str)> {
    let (terminal, command) = line.split_once("$ ")?;
    terminal.chars().all(|letter| letter.is_ascii_lowercase()).then_some((terminal, command))
}

#[test]
fn blocks_of_other_kinds_are_left_alone() {
    let page = "```\n$ rm\n```\ntext\n```console\nserver$ a \\\n  b\nout\n\nclient$ c\n```\n";
    let step = |terminal: &str, command: &str, shown: &[&str]| Step {
        terminal: terminal.to_owned(),
        command: command.to_owned(),
        shown: shown.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(steps(page), [step("server", "a b", &["out", ""]), step("client", "c", &[])]);
}
