//! Each rule: traffic that breaks it, and traffic that nearly does.

mod acknowledge;
mod closed;
mod congestion;
mod connection;
mod datagram;
mod incomplete;
mod packet;
mod page;
mod path;
mod random;
mod response;
mod retry;
mod scene;
mod sequence;
