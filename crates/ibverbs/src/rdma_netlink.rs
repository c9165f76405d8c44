//! What programs ask the RDMA subsystem of the kernel by netlink (NETLINK_RDMA, nldev), answered for our devices: `rdma`
//! of iproute2 and libraries that list devices, ports, objects and counters.
//!
//! Objects and counters are those of all processes whose devices can be asked, as `uroce res` and `uroce stat` show
//! them. Nothing can be set.

mod attribute;
mod device;
mod object;
mod object_attributes;
mod request;
mod statistic;

use attribute::Attributes;
use libc::c_int;
use netlink_packet_core::{
    Emitable, NLM_F_ACK, NLM_F_MULTIPART, NLMSG_DONE, NLMSG_ERROR, NetlinkHeader,
};
use request::{NldevCommand, NldevRequest};

use crate::log;

/// Bytes of the header of a message.
const NETLINK_HEADER_LEN: usize = 16;
/// Bytes of one datagram of an answer: less than a page with the kernel's own share, as in the kernel, since programs read with buffers of
/// a page.
const DATAGRAM: usize = 3776;
/// Requests of one call that are answered; those behind them are refused with ENOBUFS.
const MOST_REQUESTS: usize = 16;

/// The datagrams that answer what a program sent from its socket with this port number.
pub fn answer(sent: &[u8], port: u32) -> Vec<Vec<u8>> {
    let mut reply = NldevReply { datagrams: Vec::new(), port };
    let mut rest = sent;
    let mut answered = 0;
    while let Some((request, behind)) = NldevRequest::read(rest) {
        // Messages of netlink itself, and what asks for nothing, draw no answer.
        if request.is_asked() {
            answered += 1;
            if answered <= MOST_REQUESTS {
                answer_one(&request, &mut reply);
            } else {
                reply.error(&request, libc::ENOBUFS);
            }
        }
        rest = behind;
    }
    reply.datagrams
}

fn answer_one(request: &NldevRequest<'_>, reply: &mut NldevReply) {
    match contents(request) {
        Ok(messages) if request.is_dump() => {
            for message in messages {
                reply.add(request, request.kind, NLM_F_MULTIPART, &message.0);
            }
            reply.add(request, NLMSG_DONE, NLM_F_MULTIPART, &0_i32.to_ne_bytes());
        }
        Ok(messages) => {
            for message in messages {
                reply.add(request, request.kind, 0, &message.0);
            }
            if request.flags & NLM_F_ACK != 0 {
                reply.error(request, 0);
            }
        }
        Err(errno) => reply.error(request, errno),
    }
}

/// The messages of the answer, or the number of an error.
fn contents(request: &NldevRequest<'_>) -> Result<Vec<Attributes>, c_int> {
    let Some(command) = request.command() else {
        log::tell(&format_args!(
            "the program asks by netlink (NETLINK_RDMA) for command {}, which our devices do not have",
            request.operation()
        ));
        return Err(libc::EOPNOTSUPP);
    };
    match command {
        NldevCommand::Device => device::devices(request),
        NldevCommand::Port => device::ports(request),
        NldevCommand::System => Ok(vec![device::system()]),
        NldevCommand::Summary => object::summaries(request),
        NldevCommand::Objects(kind) => object::objects(request, kind),
        NldevCommand::Statistic => statistic::counters(request),
    }
}

/// Datagrams that are filled one after the other.
struct NldevReply {
    datagrams: Vec<Vec<u8>>,
    port: u32,
}

impl NldevReply {
    fn add(&mut self, request: &NldevRequest<'_>, kind: u16, flags: u16, body: &[u8]) {
        let length = NETLINK_HEADER_LEN + body.len();
        let mut header = NetlinkHeader::default();
        header.length = u32::try_from(length).unwrap_or(u32::MAX);
        (header.message_type, header.flags) = (kind, flags);
        (header.sequence_number, header.port_number) = (request.sequence, self.port);
        let mut message = vec![0; length.next_multiple_of(4)];
        header.emit(&mut message);
        message[NETLINK_HEADER_LEN..length].copy_from_slice(body);
        // Only parts of a dump share a datagram.
        let together = flags & NLM_F_MULTIPART != 0;
        match self.datagrams.last_mut() {
            Some(last) if together && last.len() + message.len() <= DATAGRAM => {
                last.extend(message)
            }
            _ => self.datagrams.push(message),
        }
    }

    /// Says how a request ended, with the header that it had.
    fn error(&mut self, request: &NldevRequest<'_>, errno: c_int) {
        let code = (-errno).to_ne_bytes();
        self.add(request, NLMSG_ERROR, 0, &[&code[..], request.header].concat());
    }
}

#[cfg(test)]
mod tests;
