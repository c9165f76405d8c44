//! Address handles.

use std::net::IpAddr;

use uroce_device::transport::AddressVector;
use uroce_device::wire::Gid;

use crate::endpoint::Endpoint;
use crate::error::AddressHandleError;
use crate::protection_domain::ProtectionDomain;

/// Attributes of an address handle (`ibv_ah_attr`). A [`Gid`], an address or an [`Endpoint`] converts into it, with default
/// header fields that can be changed afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressHandleAttr {
    /// GID of the peer or of a multicast group.
    pub gid: Gid,
    /// TTL or hop limit of the packets. 0 stands for 64.
    pub hop_limit: u8,
    /// ToS or traffic class: DSCP in the upper 6 bits.
    pub traffic_class: u8,
    /// 20 bits; flows with different labels take different UDP source ports.
    pub flow_label: u32,
    /// Index of this device's GID, 0 or 1; both are its address.
    pub gid_index: u8,
}

impl From<Gid> for AddressHandleAttr {
    fn from(gid: Gid) -> Self {
        AddressHandleAttr { gid, hop_limit: 64, traffic_class: 0, flow_label: 0, gid_index: 0 }
    }
}

impl From<IpAddr> for AddressHandleAttr {
    fn from(address: IpAddr) -> Self {
        Gid::from_ip(address).into()
    }
}

impl From<&Endpoint> for AddressHandleAttr {
    fn from(endpoint: &Endpoint) -> Self {
        endpoint.gid.into()
    }
}

impl AddressHandleAttr {
    /// The path from the device of `pd` to this address.
    pub(crate) fn path(&self, pd: &ProtectionDomain) -> Result<AddressVector, AddressHandleError> {
        let index = self.gid_index;
        let local = pd.context().query_gid(u32::from(index));
        let local = local.ok_or(AddressHandleError::NoSuchGid { index })?.to_ip();
        let remote = self.gid.to_ip();
        if remote.is_unspecified() {
            return Err(AddressHandleError::Unspecified);
        }
        if remote.is_ipv4() != local.is_ipv4() {
            return Err(AddressHandleError::OtherFamily { remote, local });
        }
        Ok(AddressVector {
            hop_limit: self.hop_limit,
            traffic_class: self.traffic_class,
            flow_label: self.flow_label,
            sgid_index: index,
            ..AddressVector::new(local, remote)
        })
    }
}

/// An address handle (`ibv_ah`): the way to a peer or to a multicast group, for UD messages.
#[derive(Debug, Clone)]
pub struct AddressHandle {
    attr: AddressHandleAttr,
    path: AddressVector,
    pd: ProtectionDomain,
}

impl ProtectionDomain {
    /// Makes an address handle (`ibv_create_ah`), the destination of UD messages. Takes an
    /// [`AddressHandleAttr`], or just a GID, an address or a peer's endpoint.
    ///
    /// # Errors
    /// [`AddressHandleError`]: there can be no path to that address.
    pub fn create_ah(
        &self,
        to: impl Into<AddressHandleAttr>,
    ) -> Result<AddressHandle, AddressHandleError> {
        AddressHandle::new(self, &to.into())
    }
}

impl AddressHandle {
    pub(crate) fn new(
        pd: &ProtectionDomain,
        attr: &AddressHandleAttr,
    ) -> Result<Self, AddressHandleError> {
        Ok(AddressHandle { attr: *attr, path: attr.path(pd)?, pd: pd.clone() })
    }

    /// The attributes that the handle was made with (`ibv_query_ah`).
    pub fn attr(&self) -> AddressHandleAttr {
        self.attr
    }

    /// The protection domain of this handle, which only queue pairs of that domain can use.
    pub fn pd(&self) -> &ProtectionDomain {
        &self.pd
    }

    pub(crate) fn path(&self) -> &AddressVector {
        &self.path
    }
}
