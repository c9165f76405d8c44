//! Services of connection management that this process answers for, among those on the address.

use super::Engine;
use rustix::io::Errno;
use uroce_cm::{CmError, PortSpace, ServiceId};

/// Ports looked at for one that is free.
const PORT_DRAWS: usize = 32;

impl Engine {
    /// Makes the calls to a service come here, whichever process receives them.
    pub(crate) fn claim(&mut self, service: ServiceId) -> Result<(), CmError> {
        self.nic.gsi.retiring.retain(|retiring| *retiring != service);
        self.datapath.claim_service(service.0).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::ADDRINUSE) => CmError::PortTaken(service),
            _ => CmError::Unfindable(service),
        })
    }

    /// Releases services without a listener, once no request to them can be repeated any more:
    /// another process would reject it.
    pub(crate) fn release_services(&mut self) {
        let (gsi, datapath) = (&mut self.nic.gsi, &mut self.datapath);
        let cm = &gsi.cm;
        gsi.retiring.retain(|service| {
            let stays = cm.is_wanted(*service);
            if !stays {
                datapath.release_service(service.0);
            }
            stays
        });
    }

    /// A port without a listener on this address.
    pub(crate) fn free_port(&mut self, space: PortSpace) -> Option<u16> {
        (0..PORT_DRAWS).find_map(|_| {
            let port = self.nic.gsi.cm.free_port(space)?;
            let service = ServiceId::new(space, port);
            if self.nic.gsi.retiring.contains(&service) || self.nic.gsi.bound.contains(&service) {
                return None;
            }
            self.datapath.claim_service(service.0).ok()?;
            self.datapath.release_service(service.0);
            Some(port)
        })
    }
}
