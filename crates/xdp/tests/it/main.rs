//! Integration tests of `uroce-xdp`, as one program: each is linked once.

mod conformance;
mod engines;
mod errors;
mod foreign;
mod frames;
mod lab;
