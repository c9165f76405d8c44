//! `uroce man FOLDER`: a manual page for each command.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;
use serde_json::json;

use crate::failure::Failure;
use crate::global::Global;
use crate::report::json;

/// Arguments of `uroce man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Where to write them: uroce.1, uroce-perf.1, ...
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Writes the pages of `root` and its subcommands.
///
/// # Errors
/// Exit 3 if a file cannot be written.
pub fn run(args: &ManArgs, global: &Global, mut root: Command) -> Result<(), Failure> {
    root.build();
    let write = |folder: &Path| {
        std::fs::create_dir_all(folder)?;
        write_all(&root, folder)
    };
    let pages = write(&args.folder).map_err(|error| {
        let folder = args.folder.display();
        Failure::environment(format!("cannot write manual pages into {folder}: {error}"))
    })?;
    if global.json {
        let folder = args.folder.display().to_string();
        json::print(&json!({ "version": json::VERSION, "folder": folder, "pages": pages }));
    }
    Ok(())
}

/// The page of `command`, and those of its subcommands; returns how many.
fn write_all(command: &Command, folder: &Path) -> io::Result<u32> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    std::fs::write(folder.join(format!("{name}.1")), page(command)?)?;
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    let mut below = command.get_subcommands().filter(shown);
    below.try_fold(1, |pages, command| Ok(pages + write_all(command, folder)?))
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone()).section("1").manual("uroce");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    page.extend(behind_options(command).into_bytes());
    Ok(page)
}

/// The notes and the examples that the help has at its end.
fn behind_options(command: &Command) -> String {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines: Vec<&str> = help.lines().collect();
    let is_heading = |line: &&str| line.starts_with("Example") && line.ends_with(':');
    let examples = lines.iter().position(is_heading).unwrap_or(lines.len());
    let (notes, examples) = lines.split_at(examples);
    // "Examples, on a third machine:" keeps where.
    let place = examples.first().and_then(|heading| heading.split_once(", "));
    let examples =
        place.map(|(_, place)| place).into_iter().chain(examples.iter().skip(1).copied());
    section("NOTES", notes.iter().copied()) + &section("EXAMPLES", examples)
}

/// Lines as they are, in a section of their own.
fn section<'a>(name: &str, lines: impl Iterator<Item = &'a str>) -> String {
    let lines: Vec<String> = lines.map(literal).collect();
    if lines.iter().all(String::is_empty) {
        return String::new();
    }
    format!(".SH {name}\n.nf\n{}\n.fi\n", lines.join("\n"))
}

/// A line that roff takes for nothing but text.
fn literal(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    fn every_command() -> Vec<Command> {
        fn add(command: &Command, all: &mut Vec<Command>) {
            for command in command.get_subcommands().filter(|command| command.get_name() != "help")
            {
                all.push(command.clone());
                add(command, all);
            }
        }
        let mut root = Cli::command();
        root.build();
        let mut all = vec![];
        add(&root, &mut all);
        all
    }

    /// The words of an example, as a shell has them: up to a remark, a pipe or a redirection.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let (mut quoted, mut blanks) = (false, 0);
        for letter in line.trim().chars() {
            blanks = if letter == ' ' { blanks + 1 } else { 0 };
            match letter {
                '\'' => quoted = !quoted,
                '|' | '#' | '>' if !quoted => break,
                ' ' if !quoted && blanks > 1 => break,
                ' ' if !quoted => words.push(String::new()),
                letter => words.last_mut().expect("a word").push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn each_command_has_a_description_options_and_examples() {
        let commands = every_command();
        assert!(commands.len() >= 20, "{}", commands.len());
        for command in commands {
            let page = String::from_utf8(page(&command).expect("memory")).expect("UTF-8");
            let name = command.get_display_name().expect("it is built");
            for section in
                [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS", ".SH EXAMPLES"]
            {
                let at = page.find(section).unwrap_or_else(|| panic!("{name} has no {section}"));
                let body = page[at..].lines().nth(1).unwrap_or_default();
                assert!(!body.is_empty() && !body.starts_with(".SH"), "{name}: {section} is empty");
            }
        }
    }

    #[test]
    fn every_example_is_a_command_line_of_the_program() {
        for command in every_command() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines = help.lines().map(|line| line.trim().trim_start_matches("sudo "));
            let examples: Vec<_> = lines.filter(|line| line.starts_with("uroce ")).collect();
            assert!(!examples.is_empty(), "{}", command.get_name());
            for example in examples {
                let words = words(example);
                if words.iter().any(|word| word == "--help") {
                    continue;
                }
                let parsed = Cli::try_parse_from(&words);
                assert!(parsed.is_ok(), "{example}: {:?}", parsed.err());
            }
        }
    }

    #[test]
    fn lines_are_literal() {
        assert_eq!(literal("  a -b"), "  a \\-b");
        assert_eq!(literal(".so \\x"), "\\&.so \\ex");
        assert_eq!(section("NOTES", [""].into_iter()), "");
    }
}
