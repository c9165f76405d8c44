//! The tests that libfabric's own script runs, and with which providers they are run here.

/// What is run, and what is not.
const TESTS: &str = include_str!("tests.txt");

/// A provider of libfabric that uses verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Connected endpoints and those for datagrams, each with a queue pair.
    Verbs,
    /// Reliable datagrams, on connected endpoints.
    Rxm,
    /// Reliable datagrams, on those for datagrams.
    Rxd,
}

impl Provider {
    /// All, in the order of the columns.
    pub const ALL: [Provider; 3] = [Provider::Verbs, Provider::Rxm, Provider::Rxd];

    /// What the option `-p` takes.
    pub fn name(self) -> &'static str {
        match self {
            Provider::Verbs => "verbs",
            Provider::Rxm => "verbs;ofi_rxm",
            Provider::Rxd => "verbs;ofi_rxd",
        }
    }
}

/// What becomes of a test with a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inclusion {
    /// It is run always.
    Run,
    /// It is run if all are asked for.
    Full,
    /// libfabric leaves it out.
    LeftOut,
    /// It fails for a defect of libfabric.
    Defect,
}

impl Inclusion {
    fn of(word: &str) -> Option<Inclusion> {
        match word {
            "ci" => Some(Inclusion::Run),
            "full" => Some(Inclusion::Full),
            "-" => Some(Inclusion::LeftOut),
            "defect" => Some(Inclusion::Defect),
            _ => None,
        }
    }
}

/// A test with its options.
#[derive(Debug, Clone, Copy)]
pub struct FabricTest {
    /// The command line, without provider and addresses.
    pub line: &'static str,
    inclusions: [Inclusion; 3],
}

impl FabricTest {
    /// What becomes of it with this provider.
    pub fn with(&self, provider: Provider) -> Inclusion {
        self.inclusions[provider as usize]
    }

    /// Program and options.
    pub fn words(&self) -> (&'static str, &'static str) {
        self.line.split_once(' ').unwrap_or((self.line, ""))
    }
}

/// All tests.
pub fn all() -> Vec<FabricTest> {
    TESTS.lines().filter(|line| !line.starts_with('#')).filter_map(test).collect()
}

fn test(line: &'static str) -> Option<FabricTest> {
    let mut columns = line.split('|').map(str::trim);
    let line = columns.next()?;
    let mut inclusion = || Inclusion::of(columns.next()?);
    Some(FabricTest { line, inclusions: [inclusion()?, inclusion()?, inclusion()?] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        let lines = TESTS.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(all().len(), lines);
    }

    #[test]
    fn columns_belong_to_providers() {
        let of = |line: &str| {
            let test = all().into_iter().find(|test| test.line == line).expect("is in the list");
            Provider::ALL.map(|provider| test.with(provider))
        };
        assert_eq!(of("fi_msg"), [Inclusion::Run, Inclusion::LeftOut, Inclusion::LeftOut]);
        assert_eq!(of("fi_rdm"), [Inclusion::LeftOut, Inclusion::Run, Inclusion::Run]);
        assert_eq!(
            of("fi_rdm_rma_event"),
            [Inclusion::LeftOut, Inclusion::LeftOut, Inclusion::Run]
        );
    }

    #[test]
    fn no_test_is_run_with_full_only_that_has_no_other_form() {
        for test in all() {
            let (program, _) = test.words();
            for provider in Provider::ALL {
                let is = |one: &FabricTest, inclusion| {
                    one.words().0 == program && one.with(provider) == inclusion
                };
                let has_other = all().iter().any(|one| is(one, Inclusion::Run));
                assert!(!is(&test, Inclusion::Full) || has_other, "{} {provider:?}", test.line);
            }
        }
    }
}
