//! Which object an event of the device is about.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use uroce_device::cm::CommId;

/// The ids of a channel. They are held weakly: an id that the program dropped hears nothing.
#[derive(Debug)]
pub(super) struct Registry<Id> {
    /// By what the device was given.
    by_cookie: HashMap<u64, Weak<Id>>,
    /// By connection; requests bear the cookie of their listener.
    by_connection: HashMap<CommId, Weak<Id>>,
    last_cookie: u64,
}

impl<Id> Default for Registry<Id> {
    fn default() -> Self {
        Registry { by_cookie: HashMap::new(), by_connection: HashMap::new(), last_cookie: 0 }
    }
}

impl<Id> Registry<Id> {
    pub(super) fn next_cookie(&mut self) -> u64 {
        self.last_cookie += 1;
        self.last_cookie
    }

    pub(super) fn add(&mut self, cookie: u64, id: &Arc<Id>) {
        self.by_cookie.insert(cookie, Arc::downgrade(id));
    }

    pub(super) fn add_connection(&mut self, connection: CommId, id: &Arc<Id>) {
        self.by_connection.insert(connection, Arc::downgrade(id));
    }

    pub(super) fn remove(&mut self, cookie: u64, connection: Option<CommId>) {
        self.by_cookie.remove(&cookie);
        if let Some(connection) = connection {
            self.by_connection.remove(&connection);
        }
    }

    pub(super) fn by_cookie(&self, cookie: u64) -> Option<Arc<Id>> {
        self.by_cookie.get(&cookie)?.upgrade()
    }

    pub(super) fn by_connection(&self, connection: CommId) -> Option<Arc<Id>> {
        self.by_connection.get(&connection)?.upgrade()
    }
}
