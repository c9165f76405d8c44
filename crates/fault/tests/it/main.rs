//! Integration tests of `uroce-fault`, as one program: each is linked once.

mod answers;
mod answers_by_the_bytes;
mod budgets;
mod chance;
mod changes;
mod examples;
mod faults;
mod grammar;
mod language;
mod limits;
mod matches;
mod mutated;
mod packets;
mod properties;
