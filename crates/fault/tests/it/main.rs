//! Integration tests of `uroce-fault`, as one program: each is linked once.

mod answers;
mod chance;
mod examples;
mod faults;
mod language;
mod limits;
mod matches;
mod mutated;
mod packets;
mod properties;
