//! Integration tests of `uroce-replay`, as one program: each is linked once.

mod answers;
mod hostile;
mod learned;
mod receives_and_ends;
mod remote;
mod reported;
mod scene;
mod taken_in;
