//! Integration tests of `uroce-analyze`, as one program: each is linked once.

mod capture;
mod clean_captures;
mod dissect;
mod golden;
mod learn_captures;
mod mutated;
mod mutation;
mod reader;
mod rxe_captures;
mod track;
mod tshark;
