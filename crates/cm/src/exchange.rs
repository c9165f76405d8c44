//! What a communication id stands for.

use std::net::IpAddr;

use crate::connection::{Connection, State};
use crate::outbox::Outbox;
use crate::resolution::Resolution;
use crate::time::Time;

/// A connection or a resolution.
#[derive(Debug)]
pub(crate) enum Exchange {
    Connection(Box<Connection>),
    Resolution(Box<Resolution>),
}

impl Exchange {
    pub(crate) fn state(&self) -> State {
        match self {
            Exchange::Connection(connection) => connection.state(),
            Exchange::Resolution(resolution) => resolution.state(),
        }
    }

    pub(crate) fn peer(&self) -> IpAddr {
        match self {
            Exchange::Connection(connection) => connection.peer(),
            Exchange::Resolution(resolution) => resolution.peer(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        match self {
            Exchange::Connection(connection) => connection.deadline(),
            Exchange::Resolution(resolution) => resolution.deadline(),
        }
    }

    pub(crate) fn is_half_open(&self) -> bool {
        match self {
            Exchange::Connection(connection) => connection.is_half_open(),
            Exchange::Resolution(resolution) => resolution.is_half_open(),
        }
    }

    /// Since when an answer of ours is not confirmed.
    pub(crate) fn unconfirmed_since(&self) -> Option<Time> {
        match self {
            Exchange::Connection(connection) => connection.unconfirmed_since(),
            Exchange::Resolution(_) => None,
        }
    }

    /// What is sent again may go to an address that was forged.
    pub(crate) fn may_be_forged(&self) -> bool {
        match self {
            Exchange::Connection(connection) => connection.may_be_forged(),
            Exchange::Resolution(_) => false,
        }
    }

    /// Until when an answer is kept for repetitions of its question.
    pub(crate) fn answered_until(&self) -> Option<Time> {
        match self {
            Exchange::Connection(_) => None,
            Exchange::Resolution(resolution) => resolution.answered_until(),
        }
    }

    /// Gone, so that another one has room.
    pub(crate) fn make_room(&mut self, out: &mut Outbox) {
        match self {
            Exchange::Connection(connection) => connection.close_silently(out),
            Exchange::Resolution(resolution) => resolution.close(),
        }
    }

    pub(crate) fn handle_timeout(
        &mut self,
        now: Time,
        own_tid: u64,
        may_send: bool,
        out: &mut Outbox,
    ) {
        match self {
            Exchange::Connection(connection) => {
                connection.handle_timeout(now, own_tid, may_send, out);
            }
            Exchange::Resolution(resolution) => resolution.handle_timeout(now, out),
        }
    }

    pub(crate) fn release(&mut self, now: Time, own_tid: u64, out: &mut Outbox) {
        match self {
            Exchange::Connection(connection) => connection.release(now, own_tid, out),
            Exchange::Resolution(resolution) => resolution.release(now, out),
        }
    }
}
