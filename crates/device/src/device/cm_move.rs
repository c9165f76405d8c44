//! Connections and listeners move from one event channel to another.

use uroce_cm::{CommId, ServiceId};

use super::Device;
use crate::cm_channel::{CmChannel, CmEventKind};

impl Device {
    /// From now on events of the connection come to `channel`, with `cookie`, including those that
    /// were not fetched yet.
    pub fn cm_move(&self, id: CommId, channel: &CmChannel, cookie: u64) {
        self.with_cm(self.of_connection(id), |engine, _| {
            let Some(owner) = engine.nic.gsi.owners.get_mut(&id) else { return };
            owner.cookie = cookie;
            let old = std::mem::replace(&mut owner.channel, channel.clone());
            old.hand_over(channel, cookie, |event| event.id == id);
        });
    }

    /// From now on requests to a service come to `channel`, with `cookie`, including those that
    /// were not fetched yet.
    pub fn cm_move_listener(&self, service_id: ServiceId, channel: &CmChannel, cookie: u64) {
        self.with_cm(&self.0.shared, |engine, _| {
            let Some(owner) = engine.nic.gsi.listeners.get_mut(&service_id) else { return };
            let old_cookie = std::mem::replace(&mut owner.cookie, cookie);
            let old = std::mem::replace(&mut owner.channel, channel.clone());
            old.hand_over(channel, cookie, |event| {
                let is_call = matches!(
                    event.kind,
                    CmEventKind::ConnectRequest(_) | CmEventKind::ResolveRequest { .. }
                );
                is_call && event.cookie == old_cookie
            });
        });
    }
}
