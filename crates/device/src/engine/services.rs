//! Services of connection management that this process answers for, among those on the address.

use rustix::io::Errno;
use uroce_cm::{CmError, PortSpace, ServiceId};

use super::Engine;

/// Ports looked at for one that is free.
const PORT_DRAWS: usize = 32;

impl Engine {
    /// Claims a service ID, so that requests to it come to this engine, whichever process receives them.
    pub(crate) fn claim(&mut self, service: ServiceId) -> Result<(), CmError> {
        self.nic.gsi.retiring.retain(|retiring| *retiring != service);
        let Some(shared_port) = self.datapath.shared_port() else { return Ok(()) };
        shared_port.claim_service(service.0).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::ADDRINUSE) => CmError::PortTaken(service),
            _ => CmError::Unfindable(service),
        })
    }

    /// Releases services without a listener, once no request to them can be repeated any more:
    /// another process would reject it.
    pub(crate) fn release_services(&mut self) {
        let gsi = &mut self.nic.gsi;
        let mut shared_port = self.datapath.shared_port();
        let cm = &gsi.cm;
        gsi.retiring.retain(|service| {
            let stays = cm.is_wanted(*service);
            if let (false, Some(shared_port)) = (stays, &mut shared_port) {
                shared_port.release_service(service.0);
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
            if let Some(shared_port) = self.datapath.shared_port() {
                shared_port.claim_service(service.0).ok()?;
                shared_port.release_service(service.0);
            }
            Some(port)
        })
    }
}
