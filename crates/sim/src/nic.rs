//! What an application talks to: a NIC of ours, or the model of another one.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use uroce_device::Device;

use crate::rxe::RxeNode;

/// A handle of the NIC of a node.
#[derive(Clone)]
pub(crate) enum Nic {
    /// Ours.
    Uroce(Device),
    /// The model of rxe.
    Rxe(Rc<RefCell<RxeNode>>),
}

impl Nic {
    pub(crate) fn address(&self) -> IpAddr {
        match self {
            Nic::Uroce(device) => device.address(),
            Nic::Rxe(node) => node.borrow().address(),
        }
    }

    /// Our device.
    ///
    /// # Panics
    ///
    /// If it is a model: it has nothing but reliable connections and one region for each.
    pub(crate) fn device(&self) -> &Device {
        match self {
            Nic::Uroce(device) => device,
            Nic::Rxe(_) => panic!("the model has no such objects"),
        }
    }

    pub(crate) fn is_model(&self) -> bool {
        matches!(self, Nic::Rxe(_))
    }
}
