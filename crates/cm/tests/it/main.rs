//! Integration tests of `uroce-cm`, as one program: each is linked once.

mod admission;
mod agent;
mod ari;
mod bound;
mod chapter_12;
mod codec_golden;
mod codec_layout;
mod floods;
mod handshake;
mod liveness;
mod resolution;
mod slots;
mod teardown;
mod unconfirmed;
mod walk;
mod world;
