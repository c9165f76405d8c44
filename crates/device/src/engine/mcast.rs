//! Multicast groups and the UD queue pairs attached to them.

use std::collections::HashMap;
use std::net::IpAddr;

use uroce_datapath::Datapath;
use uroce_transport::QpType;
use uroce_wire::Qpn;

use super::Nic;
use crate::error::{McastError, NoSuchObject};
use crate::limits::DeviceLimits;

/// Whether the datapath must act after a change of membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Membership {
    /// The group got its first, or lost its last, member.
    Changed,
    /// Other members were there already, or are left.
    Same,
}

/// Multicast groups and the queue pairs attached to them.
#[derive(Debug, Default)]
pub(crate) struct McastTable {
    groups: HashMap<IpAddr, Vec<Qpn>>,
}

impl McastTable {
    /// The members of `group`, in the order of attachment.
    pub(super) fn members(&self, group: IpAddr) -> &[Qpn] {
        self.groups.get(&group).map_or(&[], Vec::as_slice)
    }

    /// Attaching twice is the same as once.
    fn attach(
        &mut self,
        qpn: Qpn,
        group: IpAddr,
        limits: &DeviceLimits,
    ) -> Result<Membership, McastError> {
        let known = self.groups.get(&group).map_or(0, Vec::len);
        if self.members(group).contains(&qpn) {
            return Ok(Membership::Same);
        }
        if known == 0 && self.groups.len() >= limits.max_mcast_grp {
            let limit = limits.max_mcast_grp;
            return Err(McastError::LimitReached { what: "multicast groups", limit });
        }
        if known >= limits.max_mcast_qp_attach {
            let limit = limits.max_mcast_qp_attach;
            return Err(McastError::LimitReached { what: "queue pairs in one group", limit });
        }
        self.groups.entry(group).or_default().push(qpn);
        debug_assert!(self.groups.len() <= limits.max_mcast_grp, "groups without members stay");
        Ok(if known == 0 { Membership::Changed } else { Membership::Same })
    }

    fn detach(&mut self, qpn: Qpn, group: IpAddr) -> Result<Membership, McastError> {
        let members = self.groups.get_mut(&group).ok_or(McastError::NotAttached(group))?;
        let place = members.iter().position(|&m| m == qpn).ok_or(McastError::NotAttached(group))?;
        members.remove(place);
        debug_assert!(!members.contains(&qpn), "a member is listed once");
        if !members.is_empty() {
            return Ok(Membership::Same);
        }
        self.groups.remove(&group);
        Ok(Membership::Changed)
    }

    /// The groups that `qpn` is attached to.
    fn groups_of(&self, qpn: Qpn) -> Vec<IpAddr> {
        let has = |members: &Vec<Qpn>| members.contains(&qpn);
        self.groups.iter().filter(|(_, members)| has(members)).map(|(group, _)| *group).collect()
    }
}

impl Nic {
    /// The queue pair gets a copy of each packet to `group` whose Q_Key it accepts.
    pub(crate) fn attach_mcast(
        &mut self,
        qpn: Qpn,
        group: IpAddr,
        datapath: &mut dyn Datapath,
    ) -> Result<(), McastError> {
        let entry = self.qps.get(qpn).ok_or(NoSuchObject::qp(qpn))?;
        if entry.init.qp_type != QpType::Ud {
            return Err(McastError::NotUd);
        }
        if !group.is_multicast() || group.is_ipv4() != self.local.is_ipv4() {
            return Err(McastError::NotAGroup(group));
        }
        if self.mcast.attach(qpn, group, &self.limits)? == Membership::Changed
            && let Err(error) = datapath.join(group)
        {
            self.mcast.detach(qpn, group)?;
            return Err(error.into());
        }
        Ok(())
    }

    /// Undoes [`attach_mcast`](Self::attach_mcast).
    pub(crate) fn detach_mcast(
        &mut self,
        qpn: Qpn,
        group: IpAddr,
        datapath: &mut dyn Datapath,
    ) -> Result<(), McastError> {
        if self.mcast.detach(qpn, group)? == Membership::Changed {
            datapath.leave(group)?;
        }
        Ok(())
    }

    /// Part of destroying a queue pair.
    pub(super) fn leave_all_groups(&mut self, qpn: Qpn, datapath: &mut dyn Datapath) {
        for group in self.mcast.groups_of(qpn) {
            if let Err(error) = self.detach_mcast(qpn, group, datapath) {
                tracing::debug!(%group, %error, "could not leave the multicast group");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3));
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 1, 2, 4));

    fn qpn(raw: u32) -> Qpn {
        Qpn::new(raw)
    }

    #[test]
    fn v111_the_first_joins_and_the_last_leaves() {
        let mut table = McastTable::default();
        let limits = DeviceLimits::default();
        assert_eq!(table.attach(qpn(5), GROUP, &limits).ok(), Some(Membership::Changed));
        assert_eq!(table.attach(qpn(5), GROUP, &limits).ok(), Some(Membership::Same));
        assert_eq!(table.attach(qpn(6), GROUP, &limits).ok(), Some(Membership::Same));
        assert_eq!(table.members(GROUP), [qpn(5), qpn(6)]);
        assert_eq!(table.detach(qpn(5), GROUP).ok(), Some(Membership::Same));
        assert!(matches!(table.detach(qpn(5), GROUP), Err(McastError::NotAttached(_))));
        assert_eq!(table.detach(qpn(6), GROUP).ok(), Some(Membership::Changed));
        assert!(table.members(GROUP).is_empty());
    }

    #[test]
    fn v102_limits_are_exact() {
        let mut table = McastTable::default();
        let limits =
            DeviceLimits { max_mcast_grp: 1, max_mcast_qp_attach: 2, ..DeviceLimits::default() };
        assert!(table.attach(qpn(5), GROUP, &limits).is_ok());
        assert!(table.attach(qpn(6), GROUP, &limits).is_ok());
        assert!(matches!(
            table.attach(qpn(7), GROUP, &limits),
            Err(McastError::LimitReached { .. })
        ));
        assert!(matches!(
            table.attach(qpn(5), OTHER, &limits),
            Err(McastError::LimitReached { .. })
        ));
        assert_eq!(table.groups_of(qpn(6)), [GROUP]);
    }
}
