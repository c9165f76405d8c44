//! Datapaths around another one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use crate::{Caps, Datapath, DatapathStats, Flush, Recipient, Route, RxPacket, SharedPort};

/// A datapath around another one: names the inner one, and what it does differently. It is a
/// [`Datapath`] by that.
///
/// The methods with a body are those of [`Datapath`] that may differ; what they do here is what the
/// inner datapath does. Import one of the two traits only, or calls are ambiguous.
pub trait Middleware: Send {
    /// The datapath inside.
    type Inner: Datapath + ?Sized;

    /// The datapath inside.
    fn inner(&self) -> &Self::Inner;

    /// The datapath inside.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// See [`Datapath::caps`].
    fn caps(&self) -> &Caps {
        self.inner().caps()
    }

    /// See [`Datapath::tx_space`].
    fn tx_space(&mut self) -> Option<&mut [u8]> {
        self.inner_mut().tx_space()
    }

    /// See [`Datapath::tx_packets`]. One unless it says otherwise: what it does with a packet need not leave those behind
    /// it where they are.
    fn tx_packets(&self) -> usize {
        1
    }

    /// See [`Datapath::tx_only_to`]. Without effect unless it says otherwise, as [`tx_in_place`](Self::tx_in_place).
    fn tx_only_to(&mut self, recipient: Option<Recipient>) {
        let _ = recipient;
    }

    /// See [`Datapath::tx_in_place`]. Without effect unless it says otherwise: it may change or delay what is committed.
    fn tx_in_place(&mut self, packets: usize) {
        let _ = packets;
    }

    /// See [`Datapath::tx_comment`].
    fn tx_comment(&mut self, comment: &str) {
        self.inner_mut().tx_comment(comment);
    }

    /// See [`Datapath::tx_commit`].
    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        self.inner_mut().tx_commit(route, len, seal);
    }

    /// See [`Datapath::flush`].
    ///
    /// # Errors
    ///
    /// As there.
    fn flush(&mut self) -> io::Result<Flush> {
        self.inner_mut().flush()
    }

    /// See [`Datapath::recv`].
    ///
    /// # Errors
    ///
    /// As there.
    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        self.inner_mut().recv(limit, sink)
    }

    /// See [`Datapath::arm`].
    fn arm(&mut self) -> bool {
        self.inner_mut().arm()
    }

    /// See [`Datapath::poll_timeout`].
    fn poll_timeout(&self) -> Option<u64> {
        self.inner().poll_timeout()
    }

    /// See [`Datapath::waiter`].
    ///
    /// # Errors
    ///
    /// As there.
    fn waiter(&self) -> io::Result<OwnedFd> {
        self.inner().waiter()
    }

    /// See [`Datapath::join`].
    ///
    /// # Errors
    ///
    /// As there.
    fn join(&mut self, group: IpAddr) -> io::Result<()> {
        self.inner_mut().join(group)
    }

    /// See [`Datapath::leave`].
    ///
    /// # Errors
    ///
    /// As there.
    fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        self.inner_mut().leave(group)
    }

    /// See [`Datapath::shared_port`].
    fn shared_port(&mut self) -> Option<&mut dyn SharedPort> {
        self.inner_mut().shared_port()
    }

    /// See [`Datapath::stats`].
    fn stats(&self) -> DatapathStats {
        self.inner().stats()
    }
}

impl<M: Middleware> Datapath for M {
    fn caps(&self) -> &Caps {
        Middleware::caps(self)
    }
    fn local(&self) -> SocketAddr {
        self.inner().local()
    }
    fn source_port(&mut self, wanted: u16) -> u16 {
        self.inner_mut().source_port(wanted)
    }
    fn tx_space(&mut self) -> Option<&mut [u8]> {
        Middleware::tx_space(self)
    }
    fn tx_packets(&self) -> usize {
        Middleware::tx_packets(self)
    }
    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        Middleware::tx_commit(self, route, len, seal);
    }
    fn tx_distrust(&mut self) {
        self.inner_mut().tx_distrust();
    }
    fn tx_only_to(&mut self, recipient: Option<Recipient>) {
        Middleware::tx_only_to(self, recipient);
    }
    fn tx_in_place(&mut self, packets: usize) {
        Middleware::tx_in_place(self, packets);
    }
    fn tx_comment(&mut self, comment: &str) {
        Middleware::tx_comment(self, comment);
    }
    fn tx_break(&mut self) {
        self.inner_mut().tx_break();
    }
    fn flush(&mut self) -> io::Result<Flush> {
        Middleware::flush(self)
    }
    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        Middleware::recv(self, limit, sink)
    }
    fn arm(&mut self) -> bool {
        Middleware::arm(self)
    }
    fn disarm(&mut self) {
        self.inner_mut().disarm();
    }
    fn poll_timeout(&self) -> Option<u64> {
        Middleware::poll_timeout(self)
    }
    fn waiter(&self) -> io::Result<OwnedFd> {
        Middleware::waiter(self)
    }
    fn join(&mut self, group: IpAddr) -> io::Result<()> {
        Middleware::join(self, group)
    }
    fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        Middleware::leave(self, group)
    }
    fn shared_port(&mut self) -> Option<&mut dyn SharedPort> {
        Middleware::shared_port(self)
    }
    fn last_problem(&self) -> Option<String> {
        self.inner().last_problem()
    }
    fn stats(&self) -> DatapathStats {
        Middleware::stats(self)
    }
}

/// Nothing differs.
impl Middleware for Box<dyn Datapath> {
    type Inner = dyn Datapath;

    fn inner(&self) -> &Self::Inner {
        &**self
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut **self
    }

    fn tx_packets(&self) -> usize {
        self.inner().tx_packets()
    }

    fn tx_only_to(&mut self, recipient: Option<Recipient>) {
        self.inner_mut().tx_only_to(recipient);
    }

    fn tx_in_place(&mut self, packets: usize) {
        self.inner_mut().tx_in_place(packets);
    }
}
