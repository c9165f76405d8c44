//! Integration tests of `uroce-host`, as one program: each is linked once.

mod address;
mod bind_error;
mod bpf;
mod exit;
mod interface;
mod option;
mod port_holder;
mod thread;
