//! Services of connection management that this process answers for, among those on the address.

use std::collections::BTreeSet;

use rustix::io::Errno;
use uroce_cm::{CmError, PortSpace, ServiceId};
use uroce_datapath::Datapath;

use super::{Gsi, GsiContext, Owner, time};
use crate::cm_channel::CmChannel;

/// Ports looked at for one that is free.
const PORT_DRAWS: usize = 32;

impl Gsi {
    /// A port of `space` without a listener on this address.
    pub(crate) fn free_port(&mut self, space: PortSpace, cx: &mut GsiContext<'_>) -> Option<u16> {
        (0..PORT_DRAWS).find_map(|_| {
            let port = self.cm.free_port(space)?;
            let service = ServiceId::new(space, port);
            if self.retiring.contains(&service) || self.bound.contains(&service) {
                return None;
            }
            if let Some(shared_port) = cx.datapath.shared_port() {
                shared_port.claim_service(service.0).ok()?;
                shared_port.release_service(service.0);
            }
            Some(port)
        })
    }

    /// Reserves a service for this process.
    pub(crate) fn bind(
        &mut self,
        service: ServiceId,
        cx: &mut GsiContext<'_>,
    ) -> Result<(), CmError> {
        self.claim(service, cx)?;
        self.bound.insert(service);
        Ok(())
    }

    /// Requests to a service that is bound wait a moment for its listener.
    pub(crate) fn expect_listener(&mut self, service: ServiceId, cx: &GsiContext<'_>) {
        self.cm.expect_listener(time(cx.now), service);
    }

    /// Gives up a service that was bound. Does nothing if it was not.
    pub(crate) fn unbind(&mut self, service: ServiceId) {
        if self.bound.remove(&service) && !self.listeners.contains_key(&service) {
            self.retiring.push(service);
        }
    }

    /// Requests to `service` come to `channel` with `cookie`.
    pub(crate) fn listen(
        &mut self,
        service: ServiceId,
        backlog: usize,
        (channel, cookie): (&CmChannel, u64),
        cx: &mut GsiContext<'_>,
    ) -> Result<(), CmError> {
        if !self.listeners.contains_key(&service) {
            self.claim(service, cx)?;
        }
        self.cm.listen(time(cx.now), service, backlog)?;
        let owner = Owner { channel: channel.clone(), cookie, qpn: None };
        self.listeners.insert(service, owner);
        Ok(())
    }

    /// Accepts no more requests.
    pub(crate) fn unlisten(
        &mut self,
        service: ServiceId,
        cx: &GsiContext<'_>,
    ) -> Result<(), CmError> {
        self.listeners.remove(&service);
        self.cm.unlisten(time(cx.now), service)?;
        if !self.bound.contains(&service) {
            self.retiring.push(service);
        }
        Ok(())
    }

    /// From now on requests to a service come to `channel`, with `cookie`, including those that
    /// were not fetched yet.
    pub(crate) fn move_listener(&mut self, service: ServiceId, channel: &CmChannel, cookie: u64) {
        let Some(owner) = self.listeners.get_mut(&service) else { return };
        let old_cookie = std::mem::replace(&mut owner.cookie, cookie);
        let old = std::mem::replace(&mut owner.channel, channel.clone());
        // Requests follow one another in the channel, and what happens to one comes behind it.
        let mut requests = BTreeSet::new();
        old.hand_over(channel, cookie, |event| {
            let moves = event.kind.is_request() && event.cookie == old_cookie;
            moves && requests.insert(event.id) || requests.contains(&event.id)
        });
        for id in requests {
            let owner = self.owners.get_mut(&id);
            debug_assert!(owner.is_some(), "a request that waits has an owner");
            if let Some(owner) = owner {
                (owner.channel, owner.cookie) = (channel.clone(), cookie);
            }
        }
    }

    /// Claims a service ID, so that requests to it come to this engine, whichever process receives them.
    fn claim(&mut self, service: ServiceId, cx: &mut GsiContext<'_>) -> Result<(), CmError> {
        self.retiring.retain(|retiring| *retiring != service);
        let Some(shared_port) = cx.datapath.shared_port() else { return Ok(()) };
        shared_port.claim_service(service.0).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::ADDRINUSE) => CmError::PortTaken(service),
            _ => CmError::Unfindable(service),
        })
    }

    /// Releases services without a listener, once no request to them can be repeated any more:
    /// another process would reject it.
    pub(super) fn release_services(&mut self, datapath: &mut dyn Datapath) {
        let mut shared_port = datapath.shared_port();
        let cm = &self.cm;
        self.retiring.retain(|service| {
            let stays = cm.is_wanted(*service);
            if let (false, Some(shared_port)) = (stays, &mut shared_port) {
                shared_port.release_service(service.0);
            }
            stays
        });
    }
}
