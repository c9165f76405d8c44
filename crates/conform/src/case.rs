//! A case: a rule and the function that tries it.

use std::fmt;

use crate::{Bench, Outcome};

/// How binding a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// An implementation that breaks it does not interoperate, or is not safe.
    Must,
    /// A good implementation keeps it; one that does not still interoperates.
    Should,
    /// Several answers are right, or a value is only recorded.
    Free,
}

impl Class {
    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Must => "must",
            Class::Should => "should",
            Class::Free => "implementation-defined",
        }
    }
}

/// Which part of the NIC under test is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It answers requests.
    Responder,
    /// It sends requests.
    Requester,
}

impl Role {
    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Responder => "responder",
            Role::Requester => "requester",
        }
    }
}

/// One case.
#[derive(Clone, Copy)]
pub struct Case {
    /// Service, role and name: `rc.responder.nak-once-per-gap`.
    pub id: &'static str,
    /// The rules of docs/conformance.md, and identifiers of the specification where they are known.
    pub rules: &'static str,
    /// Numbers of the candidates in docs/conform/coverage.md that it covers.
    pub candidates: &'static [u16],
    /// How binding the rule is.
    pub class: Class,
    /// The rule as one sentence.
    pub sentence: &'static str,
    /// Tries it.
    pub run: fn(&Bench<'_>) -> Outcome,
}

impl Case {
    /// The role in its name.
    pub fn role(&self) -> Role {
        if self.id.contains(".requester.") { Role::Requester } else { Role::Responder }
    }
}

impl Case {
    /// It loads the host, or sends what defective hosts do not bear: it runs only if it is asked for.
    pub fn is_robustness(&self) -> bool {
        self.id.contains(".robustness.")
    }

    /// It measures message rates and latencies: it runs only if it is asked for.
    pub fn is_performance(&self) -> bool {
        self.id.contains(".performance.")
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// Cases of one family, one after the other: `class "id" "rules" [candidates] "sentence" function;`.
macro_rules! cases {
    ($($class:ident $id:literal, $rules:literal, [$($candidate:literal),*], $sentence:literal, $run:expr;)*) => {
        /// The cases of this family.
        pub const CASES: &[crate::Case] = &[$(crate::Case {
            id: $id,
            rules: $rules,
            candidates: &[$($candidate),*],
            class: crate::Class::$class,
            sentence: $sentence,
            run: $run,
        }),*];
    };
}
pub(crate) use cases;
