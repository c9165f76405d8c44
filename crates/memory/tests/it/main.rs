//! Integration tests of `uroce-memory`, as one program: each is linked once.

mod check;
mod common;
mod registration;
mod sge_lists;
mod windows;
