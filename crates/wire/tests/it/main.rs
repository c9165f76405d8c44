//! Integration tests of `uroce-wire`, as one program: each is linked once.

mod frame;
mod golden;
mod hostile;
mod icrc;
mod round_trip;
