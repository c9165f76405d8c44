//! Integration tests of `uroce-memory`, as one program: each is linked once.

mod check;
mod common;
mod edges;
mod guesses;
mod lives;
mod parts;
mod registration;
mod rights;
mod sge_lists;
mod windows;
mod words;
