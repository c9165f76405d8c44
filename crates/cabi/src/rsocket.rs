//! The functions of `rdma/rsocket.h`: pointers of C become slices, addresses and values for `uroce-rsockets`.

mod address;
mod connect;
mod epoll;
mod iomap;
mod options;
mod poll;
mod receive;
mod send;
mod slices;

#[cfg(test)]
mod tests;
