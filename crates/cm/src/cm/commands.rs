//! What applications ask for.

use uroce_wire::Qpn;

use super::Cm;
use crate::call::{Acceptance, Call};
use crate::connection::Connection;
use crate::error::CmError;
use crate::link::Link;
use crate::outbox::Outbox;
use crate::resolution::{Answer, Question, Resolution};
use crate::time::Time;
use crate::{CommId, RejReason, ServiceId, SidrStatus};

impl Cm {
    /// Takes calls to `service_id` from now on, and those of the last two seconds if it had a listener
    /// shortly before or was expected to get one; at most `backlog` wait for the application, see
    /// [`note_fetched`](Self::note_fetched).
    ///
    /// # Errors
    /// [`CmError::PortTaken`].
    pub fn listen(
        &mut self,
        now: Time,
        service_id: ServiceId,
        backlog: usize,
    ) -> Result<(), CmError> {
        self.table.listeners.add(service_id, backlog)?;
        let early = self.reopening.open(service_id);
        self.handle_early(now, early);
        Ok(())
    }

    /// The application has fetched a request or a question: from now on it does not count against the backlog of its
    /// listener, as with Linux. It does count against [`max_half_open`](crate::CmLimits::max_half_open) and
    /// [`max_half_open_per_source`](crate::CmLimits::max_half_open_per_source) until it is answered, which bounds a flood.
    pub fn note_fetched(&mut self, id: CommId) {
        self.table.note_fetched(id);
    }

    /// The application has bound the port of `service_id` and is about to listen: requests of the
    /// next two seconds wait for the listener, and are refused if none comes. Does nothing when 64
    /// services wait for theirs already.
    pub fn expect_listener(&mut self, now: Time, service_id: ServiceId) {
        self.reopening.expect(now, service_id);
    }

    /// Takes no more calls. Requests that came before can still be answered; those of the next
    /// two seconds wait for another listener, and are refused then.
    ///
    /// # Errors
    /// [`CmError::NotListening`].
    pub fn unlisten(&mut self, now: Time, service_id: ServiceId) -> Result<(), CmError> {
        self.table.listeners.remove(service_id)?;
        self.reopening.close(now, service_id);
        Ok(())
    }

    /// Calls a peer. The answer is an event.
    ///
    /// # Errors
    /// [`CmError`]: too many connections, the other IP version, too much private data.
    pub fn connect(&mut self, now: Time, call: &Call) -> Result<CommId, CmError> {
        self.us.check_family(call.remote)?;
        let id = new_id(self)?;
        let req = call.req(id, &self.us)?;
        let tid = self.ids.tid(id);
        let req = (&req, call.packet_lifetime);
        let mut connection = Connection::call(now, &self.us, call.remote, tid, req, &mut self.out);
        connection.set_ack_timeout(call.ack_timeout);
        self.table.add_connection(id, connection);
        Ok(id)
    }

    /// The values for the queue pair that [`accept`](Self::accept) with the same arguments
    /// implies: the queue pair should be ready to receive before the REP is sent.
    ///
    /// # Errors
    /// Those of `accept`.
    pub fn link_with(&self, id: CommId, acceptance: &Acceptance) -> Result<Link, CmError> {
        let connection = self.table.connection(id).filter(|found| !found.is_released());
        connection.ok_or(CmError::NoSuchConnection(id))?.link_with(acceptance)
    }

    /// Accepts a request: the REP goes out.
    ///
    /// # Errors
    /// [`CmError`]: it is no request that waits, too much private data.
    pub fn accept(
        &mut self,
        now: Time,
        id: CommId,
        acceptance: &Acceptance,
    ) -> Result<(), CmError> {
        self.command(id, |connection, _, out| connection.accept(now, acceptance, out))
    }

    /// Refuses a request or a reply, with up to 148 bytes of private data; or a question, with up to 136: its status is
    /// [`SidrStatus::REJECTED`], and `reason` is not told.
    ///
    /// # Errors
    /// [`CmError`]: it waits for no answer, too much private data.
    pub fn reject(
        &mut self,
        now: Time,
        id: CommId,
        reason: RejReason,
        private_data: &[u8],
    ) -> Result<(), CmError> {
        if self.table.resolution_mut(id).is_some() {
            let (status, private_data) = (SidrStatus::REJECTED, private_data.to_vec());
            let answer = Answer { status, qpn: Qpn::new(0), qkey: 0, private_data };
            return self.answer(now, id, &answer);
        }
        self.command(id, |connection, _, out| connection.reject(now, reason, private_data, out))
    }

    /// Confirms a reply, with up to 224 bytes of private data: the RTU goes out.
    ///
    /// # Errors
    /// [`CmError`]: it is no reply that waits, too much private data.
    pub fn establish(&mut self, id: CommId, private_data: &[u8]) -> Result<(), CmError> {
        self.command(id, |connection, _, out| connection.establish(private_data, out))
    }

    /// Ends a connection, with up to 220 bytes of private data: the DREQ goes out.
    ///
    /// # Errors
    /// [`CmError`]: it does not stand, too much private data.
    pub fn disconnect(
        &mut self,
        now: Time,
        id: CommId,
        private_data: &[u8],
    ) -> Result<(), CmError> {
        self.command(id, |connection, tid, out| connection.disconnect(now, tid, private_data, out))
    }

    /// A packet of a connection arrived on its queue pair: it stands for a lost RTU (R113), and shows
    /// that the peer is alive.
    pub fn handle_comm_est(&mut self, id: CommId) {
        if let Some(connection) = self.table.connection_mut(id) {
            connection.handle_comm_est(&mut self.out);
        }
        self.table.settle(id);
    }

    /// Asks which queue pair serves a service. The answer is an event.
    ///
    /// # Errors
    /// [`CmError`] as for [`connect`](Self::connect).
    pub fn resolve(&mut self, now: Time, question: &Question) -> Result<CommId, CmError> {
        self.us.check_family(question.remote)?;
        let id = new_id(self)?;
        let ids = (id, self.ids.tid(id));
        let resolution = Resolution::ask(now, &self.us, ids, question, &mut self.out)?;
        self.table.add_resolution(id, resolution);
        Ok(id)
    }

    /// Answers a question.
    ///
    /// # Errors
    /// [`CmError`]: it is none that waits, too much private data.
    pub fn answer(&mut self, now: Time, id: CommId, answer: &Answer) -> Result<(), CmError> {
        let resolution = self.table.resolution_mut(id).ok_or(CmError::NoSuchConnection(id))?;
        let answered = resolution.answer(now, answer, &mut self.out);
        self.table.settle(id);
        self.table.forget_oldest_answer(&mut self.out);
        answered
    }

    /// The application is done with `id`, in any state: no event of it comes any more (B54). The
    /// peer is told what it must know, and a connection still goes through TIMEWAIT.
    pub fn release(&mut self, now: Time, id: CommId) {
        let tid = self.ids.tid(id);
        if let Some(exchange) = self.table.exchange_mut(id) {
            exchange.release(now, tid, &mut self.out);
        }
        self.out.forget(id);
        self.table.note_released(id);
        self.table.settle(id);
        self.table.forget_oldest_answer(&mut self.out);
    }

    /// A command on a connection that the application holds.
    fn command(
        &mut self,
        id: CommId,
        run: impl FnOnce(&mut Connection, u64, &mut Outbox) -> Result<(), CmError>,
    ) -> Result<(), CmError> {
        let tid = self.ids.tid(id);
        let connection = self.table.connection_mut(id).filter(|found| !found.is_released());
        let connection = connection.ok_or(CmError::NoSuchConnection(id))?;
        let done = run(connection, tid, &mut self.out);
        self.table.settle(id);
        done
    }
}

/// An id for what the application begins.
fn new_id(cm: &mut Cm) -> Result<CommId, CmError> {
    cm.draw_id().ok_or(CmError::TooMany { limit: cm.limits.max_connections })
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use uroce_wire::{Psn, Qpn};

    use super::*;
    use crate::{CmLimits, Identity, PortSpace};

    #[test]
    fn b54_the_id_of_a_call_that_is_over_is_nobody_elses_until_it_is_released() {
        let [address, remote] = [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        let us = Identity { address, guid: 1, ack_delay: 15, active_mtu: 3, slot: None };
        let mut cm = Cm::new(us, CmLimits::default(), [1; 32]);
        let service = ServiceId::new(PortSpace::Tcp, 7174);
        let call = Call::new(remote, service, Qpn::new(5), Psn::new(1));
        let [kept, released] = [(); 2].map(|()| cm.connect(Time::ZERO, &call).expect("a call"));
        cm.release(Time::ZERO, released);
        let mut now = Time::ZERO;
        while cm.state(kept).is_some() {
            now += Duration::from_secs(1);
            cm.handle_timeout(now);
        }
        assert!(cm.is_empty(), "nobody has answered");
        assert!(cm.table.is_taken(kept) && !cm.table.is_taken(released));
        cm.release(now, kept);
        assert!(!cm.table.is_taken(kept));
    }
}
