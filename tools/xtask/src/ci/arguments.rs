//! The command line of `cargo xtask ci`.

use std::ffi::OsString;

use uroce_testbed::error::{Error, Result};

/// What `--help` prints.
pub const HELP: &str = "\
Everything that must hold before a change is taken

Usage: cargo xtask ci [OPTIONS]

Options:
      --skip <STEP>  Leave out a step, by its name; may be given several times
      --only <STEP>  Run only these steps, by name; may be given several times
      --list         Name the steps and what each checks, and do nothing
  -h, --help         Print help
";

/// Options of `ci`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CiArgs {
    /// Steps to leave out.
    pub skip: Vec<String>,
    /// Steps to run; none means all. A name alone is one as well.
    pub only: Vec<String>,
    /// Name the steps instead.
    pub list: bool,
    /// Print help instead.
    pub help: bool,
}

impl CiArgs {
    /// Reads `--skip STEP`, `--skip=STEP` and so on.
    ///
    /// # Errors
    /// There is no such option, or its step is missing.
    pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Self> {
        let mut arguments = Self::default();
        let mut words = words.map(|word| word.to_string_lossy().into_owned());
        while let Some(word) = words.next() {
            let (option, step) = match word.split_once('=') {
                Some((option, step)) => (option, Some(step.to_owned())),
                None => (word.as_str(), None),
            };
            let mut step = || {
                let missing = || Error::new(format!("{option} needs the name of a step"));
                step.clone().or_else(|| words.next()).ok_or_else(missing)
            };
            match option {
                "--skip" => arguments.skip.push(step()?),
                "--only" => arguments.only.push(step()?),
                "--list" => arguments.list = true,
                "-h" | "--help" => arguments.help = true,
                name if !name.starts_with('-') => arguments.only.push(name.to_owned()),
                _ => return Err(Error::new(format!("there is no option {option}\n\n{HELP}"))),
            }
        }
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<CiArgs> {
        CiArgs::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn steps_are_named_in_every_form() {
        let arguments = parsed("--skip rxe --only=fmt clippy --only doc --list").expect("options");
        assert_eq!(arguments.skip, ["rxe"]);
        assert_eq!(arguments.only, ["fmt", "clippy", "doc"]);
        assert!(arguments.list && !arguments.help);
        assert_eq!(parsed("").expect("none"), CiArgs::default());
    }

    #[test]
    fn what_is_not_an_option_is_an_error() {
        assert!(parsed("--onyl fmt").is_err_and(|error| error.to_string().contains("--onyl")));
        assert!(parsed("--skip").is_err_and(|error| error.to_string().contains("--skip")));
    }
}
