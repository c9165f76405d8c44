//! Integration tests of `uroce-link`, as one program: each is linked once.

mod changes;
mod facts;
mod neighbours;
mod port_socket;
mod routes;
