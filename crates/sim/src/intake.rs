//! What each of several engines takes in.

use std::io;

use uroce_datapath::{ChannelDatapath, Middleware, RxPacket};

use crate::port::{PortHandle, SimDatapath};

/// The datapath of one of several engines. The port hears what the engine gets, at once or from another one: its rules
/// are for what a queue pair knows of.
pub(crate) struct IntakeDatapath {
    inner: ChannelDatapath<SimDatapath>,
    port: PortHandle,
    taken: Vec<Vec<u8>>,
}

impl IntakeDatapath {
    pub(crate) fn new(inner: ChannelDatapath<SimDatapath>, port: PortHandle) -> IntakeDatapath {
        IntakeDatapath { inner, port, taken: vec![] }
    }
}

impl Middleware for IntakeDatapath {
    type Inner = ChannelDatapath<SimDatapath>;

    fn inner(&self) -> &Self::Inner {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut self.inner
    }

    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        let IntakeDatapath { inner, port, taken } = self;
        let count = uroce_datapath::Datapath::recv(inner, limit, &mut |rx| {
            taken.push(rx.payload.to_vec());
            sink(RxPacket { following: None, ..rx });
        })?;
        port.note_taken(taken.drain(..));
        Ok(count)
    }
}
