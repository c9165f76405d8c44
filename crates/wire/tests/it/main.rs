//! Integration tests of `uroce-wire`, as one program: each is linked once.

mod bits;
mod frame;
mod frames_field_by_field;
mod golden;
mod hostile;
mod icrc;
mod icrc_by_the_book;
mod numbers;
mod opcodes;
mod refusals;
mod round_trip;
mod samples;
mod spec;
mod texts_and_areas;
