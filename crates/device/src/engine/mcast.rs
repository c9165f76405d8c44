//! Multicast groups and the queue pairs attached to them.

use std::collections::HashMap;
use std::net::IpAddr;

use uroce_wire::Qpn;

use crate::error::McastError;
use crate::limits::DeviceLimits;

/// Whether the datapath must act after a change of membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Membership {
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
    pub(crate) fn members(&self, group: IpAddr) -> &[Qpn] {
        self.groups.get(&group).map_or(&[], Vec::as_slice)
    }

    /// Attaching twice is the same as once.
    pub(crate) fn attach(
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
        Ok(if known == 0 { Membership::Changed } else { Membership::Same })
    }

    pub(crate) fn detach(&mut self, qpn: Qpn, group: IpAddr) -> Result<Membership, McastError> {
        let members = self.groups.get_mut(&group).ok_or(McastError::NotAttached(group))?;
        let place = members.iter().position(|&m| m == qpn).ok_or(McastError::NotAttached(group))?;
        members.remove(place);
        if !members.is_empty() {
            return Ok(Membership::Same);
        }
        self.groups.remove(&group);
        Ok(Membership::Changed)
    }

    /// The groups that `qpn` is attached to.
    pub(crate) fn groups_of(&self, qpn: Qpn) -> Vec<IpAddr> {
        let has = |members: &Vec<Qpn>| members.contains(&qpn);
        self.groups.iter().filter(|(_, members)| has(members)).map(|(group, _)| *group).collect()
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
