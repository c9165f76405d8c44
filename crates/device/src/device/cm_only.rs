//! Connections whose queue pairs are moved by the application: the device sends and receives the CM
//! messages only.

use uroce_cm::{Acceptance, Call, CmError, CommId, Link};

use super::Device;
use crate::cm_channel::CmChannel;
use crate::engine::Engine;
use crate::engine::gsi::Owner;

impl Device {
    /// As [`cm_connect`](Self::cm_connect), but leaves the queue pair alone, which need not be this
    /// device's. When the peer accepts, the event "accepted" comes with what the queue pair needs;
    /// [`cm_establish`](Self::cm_establish) is due then. The path MTU is the port's.
    ///
    /// # Errors
    /// [`CmError`]; nothing was sent.
    pub fn cm_connect_only(
        &self,
        call: &Call,
        channel: &CmChannel,
        cookie: u64,
    ) -> Result<CommId, CmError> {
        self.with_cm(&self.0.shared, |engine, now| {
            let call = Call { path_mtu: engine.active_mtu.code(), ..call.clone() };
            let id = engine.nic.gsi.cm.connect(now, &call)?;
            let owner = Owner { channel: channel.clone(), cookie, qpn: None };
            engine.nic.gsi.owners.insert(id, owner);
            Ok(id)
        })
    }

    /// Attributes of a queue pair that accepts a REQ with this acceptance.
    ///
    /// # Errors
    /// [`CmError`]: the call was answered or is gone, too much private data.
    pub fn cm_link_with(&self, id: CommId, acceptance: &Acceptance) -> Result<Link, CmError> {
        self.of_connection(id).lock().nic.gsi.cm.link_with(id, acceptance)
    }

    /// As [`cm_accept`](Self::cm_accept), but leaves the queue pair alone: it should be able to
    /// receive already, with what [`cm_link_with`](Self::cm_link_with) says.
    ///
    /// # Errors
    /// [`CmError`]: the call was answered or is gone, too much private data.
    pub fn cm_accept_only(&self, id: CommId, acceptance: &Acceptance) -> Result<(), CmError> {
        self.with_cm(self.of_connection(id), |engine, now| {
            engine.nic.gsi.cm.accept(now, id, acceptance)
        })
    }

    /// A queue pair that the application readied itself has received its first packet: that stands for the
    /// peer's confirmation, which may be lost.
    pub fn cm_handle_comm_est(&self, id: CommId) {
        self.with_cm(self.of_connection(id), |engine, _| engine.nic.gsi.handle_comm_est(id));
    }

    /// A peer has not confirmed yet that a connection is over; released connections count. A process that ends
    /// now leaves that peer in doubt if the message was lost.
    pub fn cm_awaits_drep(&self) -> bool {
        // At its end a process may have interrupted a call that holds an engine.
        let waits = |engine: &Engine| engine.nic.gsi.cm.awaits_drep();
        self.engines().iter().any(|shared| shared.try_lock().is_some_and(|engine| waits(&engine)))
    }

    /// The queue pair of an accepted call is ready: the peer is told so.
    ///
    /// # Errors
    /// [`CmError`]: the call was not accepted, or was established before.
    pub fn cm_establish(&self, id: CommId) -> Result<(), CmError> {
        self.with_cm(self.of_connection(id), |engine, _| engine.nic.gsi.cm.establish(id, &[]))
    }
}
