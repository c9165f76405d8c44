//! Integration tests of `uroce-datapath`, as one program: each is linked once.

mod capture;
mod conformance;
