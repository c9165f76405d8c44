//! The form of the tree, so far as a program can see it: sizes, the direction of dependencies inside crates, names, words.
//!
//! What broke a rule when the rule was made is listed beside it with its size, and may only become smaller. Every failure
//! says what to do.

mod assertions;
mod circles;
mod docs;
mod imports;
mod modules;
mod names;
mod proportions;
mod sans_io;
mod sizes;
mod tree;
mod unsafe_code;
mod words;
