//! Multicast membership of UD queue pairs.

use std::net::IpAddr;

use uroce_wire::Qpn;

use super::Device;
use crate::engine::Engine;
use crate::error::McastError;

impl Device {
    /// `ibv_attach_mcast`: the queue pair gets a copy of each packet to `group` whose Q_Key it
    /// accepts. A second attachment has no effect.
    ///
    /// # Errors
    /// [`McastError`].
    pub fn attach_mcast(&self, qpn: Qpn, group: IpAddr) -> Result<(), McastError> {
        let mut engine = self.0.engines.of_qp(qpn).lock();
        let Engine { nic, datapath, .. } = &mut *engine;
        nic.attach_mcast(qpn, group, &mut **datapath)
    }

    /// `ibv_detach_mcast`.
    ///
    /// # Errors
    /// [`McastError::NotAttached`].
    pub fn detach_mcast(&self, qpn: Qpn, group: IpAddr) -> Result<(), McastError> {
        let mut engine = self.0.engines.of_qp(qpn).lock();
        let Engine { nic, datapath, .. } = &mut *engine;
        nic.detach_mcast(qpn, group, &mut **datapath)
    }
}
