//! What a capture has of one responder.

use std::net::IpAddr;

use uroce_wire::{Psn, Qpn};

use crate::answer::Answer;
use crate::request::Request;

/// One end of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// Its address.
    pub address: IpAddr,
    /// Its queue pair; `None` if nothing tells.
    pub qpn: Option<Qpn>,
}

/// The requests to one queue pair, and what it answered.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The end that sent the requests.
    pub requester: Side,
    /// Whose place the queue pair of now takes.
    pub responder: Side,
    /// The requests in the order of the capture.
    pub requests: Vec<Request>,
    /// The answers in the order of the capture.
    pub answers: Vec<Answer>,
    /// The first PSN of the requests, if connection management told it.
    pub first_psn: Option<Psn>,
    /// The path MTU in bytes, if full packets or connection management told it.
    pub path_mtu: Option<u32>,
    /// Requests and answers that are not kept, because of [`crate::Limits`].
    pub left_out: u64,
    /// Requests that a fault rule took away before the responder got them.
    pub taken_away: u64,
    /// Requests whose ICRC is wrong; known once they are taken out.
    pub(crate) damaged: u64,
    /// Times that the requester began again with other PSNs; what follows cannot be answered.
    pub restarts: u64,
    /// Nanoseconds from the first to the last packet of the capture.
    pub duration: u64,
    /// Nanoseconds from the first packet to the last DREQ of this connection.
    pub closed: Option<u64>,
}

impl Recording {
    /// Takes out what is damaged and counts the requests of it: what they name is not to be set up.
    pub(crate) fn take_out_damaged(&mut self) {
        let before = self.requests.len();
        self.requests.retain(|request| !request.is_damaged);
        self.answers.retain(|answer| !answer.is_damaged);
        self.damaged += (before - self.requests.len()) as u64;
    }

    /// One of its ends has this queue pair.
    pub fn has_qpn(&self, qpn: Qpn) -> bool {
        self.requester.qpn == Some(qpn) || self.responder.qpn == Some(qpn)
    }

    /// One of its ends has this address.
    pub fn has_host(&self, host: IpAddr) -> bool {
        self.requester.address == host || self.responder.address == host
    }
}
