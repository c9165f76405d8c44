//! Multicast membership of UD queue pairs.

use std::net::IpAddr;

use uroce_transport::QpType;
use uroce_wire::Qpn;

use super::Device;
use super::queue_pair::no_qp;
use crate::engine::Engine;
use crate::engine::mcast::Membership;
use crate::error::McastError;

impl Device {
    /// `ibv_attach_mcast`: the queue pair gets a copy of each packet to `group` whose Q_Key it
    /// accepts. A second attachment has no effect.
    ///
    /// # Errors
    /// [`McastError`].
    pub fn attach_mcast(&self, qpn: Qpn, group: IpAddr) -> Result<(), McastError> {
        let mut engine = self.of_qp(qpn).lock();
        let engine = &mut *engine;
        let entry = engine.nic.qps.get(qpn).ok_or(no_qp(qpn))?;
        if entry.init.qp_type != QpType::Ud {
            return Err(McastError::NotUd);
        }
        if !group.is_multicast() || group.is_ipv4() != engine.nic.local.is_ipv4() {
            return Err(McastError::NotAGroup(group));
        }
        if engine.nic.mcast.attach(qpn, group, &engine.limits)? == Membership::Changed
            && let Err(error) = engine.datapath.join(group)
        {
            engine.nic.mcast.detach(qpn, group)?;
            return Err(error.into());
        }
        Ok(())
    }

    /// `ibv_detach_mcast`.
    ///
    /// # Errors
    /// [`McastError::NotAttached`].
    pub fn detach_mcast(&self, qpn: Qpn, group: IpAddr) -> Result<(), McastError> {
        self.of_qp(qpn).lock().detach(qpn, group)
    }
}

impl Engine {
    fn detach(&mut self, qpn: Qpn, group: IpAddr) -> Result<(), McastError> {
        if self.nic.mcast.detach(qpn, group)? == Membership::Changed {
            self.datapath.leave(group)?;
        }
        Ok(())
    }

    /// Part of destroying a queue pair.
    pub(super) fn leave_all_groups(&mut self, qpn: Qpn) {
        for group in self.nic.mcast.groups_of(qpn) {
            if let Err(error) = self.detach(qpn, group) {
                tracing::debug!(%group, %error, "could not leave the multicast group");
            }
        }
    }
}
