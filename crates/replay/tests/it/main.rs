//! Integration tests of `uroce-replay`, as one program: each is linked once.

mod answers;
mod hostile;
mod remote;
mod scene;
